// Images as LFM2-VL sees them: small ones in their own form, large ones as square tiles of nearly their form, and all of it as one tile more.
// Source: Liquid AI, "LFM2 Technical Report", 2025, and the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { cutTiles } from './cut-tiles.ts';
import { decodeImage } from './decode-image.ts';
import { type Area, fitArea, largestArea, roundToEven, type Size } from './fit-area.ts';
import { checkGiven } from './given-fields.ts';
import { type ImageProcessor, type ImageTile, MOST_PATCHES, type ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import type { Pixels } from './pixels.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';
import { type GridOptions, MOST_TILES, nearestGrid } from './tile-grid.ts';

const IMAGE = '<image>';
const START = '<|image_start|>';
const END = '<|image_end|>';
const WHOLE = '<|img_thumbnail|>';

interface Lfm2VLOptions {
  readonly patchSize: number;
  /** So many patches below each other and beside each other become one token. */
  readonly mergeSize: number;
  /** Of an image that is seen whole. */
  readonly area: Area;
  /** Null where images are not cut. */
  readonly tiles: TileOptions | null;
  readonly filter: Filter;
  readonly colours: Colours;
}

interface TileOptions extends GridOptions {
  /** Images of a larger area are cut. */
  readonly fromArea: number;
  /** Whether all of an image is seen beside its tiles. */
  readonly seesWhole: boolean;
}

export class Lfm2VLProcessor implements ImageProcessor {
  readonly mark = IMAGE;
  readonly placeholder = IMAGE;
  readonly mostPatches: number;
  readonly #options: Lfm2VLOptions;

  constructor(options: Lfm2VLOptions) {
    this.#options = options;
    const { area, tiles, patchSize } = options;
    const largest = Math.max(largestArea(area, this.#step), (tiles?.size ?? 0) ** 2);
    this.mostPatches = Math.min(MOST_PATCHES, Math.ceil(largest / patchSize ** 2));
  }

  /** Pixels of a token on each side. */
  get #step(): number {
    return this.#options.patchSize * this.#options.mergeSize;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { mergeSize, tiles, colours } = this.#options;
    const pixels = await decodeImage(file);
    const rows = tiles && this.#isLarge(pixels, tiles) ? this.#cut(pixels, tiles) : [];
    const whole = rows.length === 0 || tiles!.seesWhole ? this.#seeWhole(pixels) : null;
    const all = [...rows.flat(), ...(whole ? [whole] : [])];
    const numTokens = (tile: ImageTile): number => (tile.rows * tile.cols) / mergeSize ** 2;
    return {
      image: prepareImage(
        all,
        colours,
        all.reduce((sum, tile) => sum + numTokens(tile), 0),
      ),
      text: textOf(rows, whole, (tile) => IMAGE.repeat(numTokens(tile))),
    };
  }

  #seeWhole(pixels: Pixels): ImageTile {
    const { area, patchSize, filter } = this.#options;
    const { width, height } = fitArea(pixels, this.#step, area, 1);
    return wholeTile(resize(pixels, width, height, filter), patchSize);
  }

  #isLarge({ width, height }: Size, { fromArea }: TileOptions): boolean {
    const [across, down] = [width, height].map((length) =>
      Math.max(roundToEven(length / this.#step) * this.#step, this.#options.patchSize),
    );
    return across! * down! > fromArea;
  }

  #cut(pixels: Pixels, tiles: TileOptions): ImageTile[][] {
    const { patchSize, filter } = this.#options;
    const { rows, cols } = nearestGrid(pixels, tiles);
    return cutTiles(resize(pixels, cols * tiles.size, rows * tiles.size, filter), tiles.size, patchSize);
  }
}

/** @param whole null where only its tiles are seen */
function textOf(
  rows: readonly (readonly ImageTile[])[],
  whole: ImageTile | null,
  tokens: (tile: ImageTile) => string,
): string {
  const tiles = rows.flatMap((line, row) =>
    line.map((tile, col) => `<|img_row_${row + 1}_col_${col + 1}|>${tokens(tile)}`),
  );
  const all = whole === null ? '' : `${rows.length > 0 ? WHOLE : ''}${tokens(whole)}`;
  return `${START}${tiles.join('')}${all}${END}`;
}

const length = z.int().positive();

const modelFields = z.object({
  vision_config: z.object({ patch_size: length.default(16) }),
  downsample_factor: length.default(2),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  do_image_splitting: z.boolean().nullish(),
  use_thumbnail: z.boolean().nullish(),
  min_tiles: length.nullish(),
  max_tiles: length.max(MOST_TILES).nullish(),
  tile_size: length.nullish(),
  min_image_tokens: length.nullish(),
  max_image_tokens: length.nullish(),
  max_pixels_tolerance: z.number().positive().nullish(),
  resample: resampling.nullish(),
});

const givenFields = z.strictObject({
  do_image_splitting: z.boolean().nullish(),
  min_image_tokens: length.nullish(),
  max_image_tokens: length.nullish(),
});

/**
 * @throws ModelLoadError where the files say what is not supported; ConfigError where --mm-processor-kwargs does.
 */
export function loadLfm2VL({ config, images, given }: ImageSettings): Lfm2VLProcessor {
  const model = checkModelJson(config.path, config.json, modelFields);
  const own = checkModelJson(images.path, images.json, imageFields);
  const wanted = checkGiven(given, givenFields, 'do_image_splitting, min_image_tokens and max_image_tokens');
  const { patch_size: patchSize } = model.vision_config;
  const { downsample_factor: mergeSize } = model;
  const ofToken = (patchSize * mergeSize) ** 2;
  const most = (wanted.max_image_tokens ?? own.max_image_tokens ?? 256) * ofToken;
  const least = (wanted.min_image_tokens ?? own.min_image_tokens ?? 64) * ofToken;
  const isCut = wanted.do_image_splitting ?? own.do_image_splitting ?? true;
  const tiles = {
    size: own.tile_size ?? 512,
    least: own.min_tiles ?? 2,
    most: own.max_tiles ?? 10,
    fromArea: most * (own.max_pixels_tolerance ?? 2),
    seesWhole: own.use_thumbnail ?? true,
  };
  if (tiles.size % (patchSize * mergeSize) !== 0 || tiles.least > tiles.most) {
    throw new ModelLoadError(
      `${images.path}: tile_size must be a multiple of ${patchSize * mergeSize} pixels, which a token has, and min_tiles at most max_tiles, ` +
        `got ${tiles.size}, ${tiles.least} and ${tiles.most}`,
    );
  }
  return new Lfm2VLProcessor({
    patchSize,
    mergeSize,
    area: { least: Math.min(least, most), most },
    tiles: isCut ? tiles : null,
    filter: own.resample ?? 'bilinear',
    colours: readColours(images, { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }),
  });
}
