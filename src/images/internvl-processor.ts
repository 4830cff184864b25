// Images as InternVL sees them: square tiles in a grid of nearly the image's form, then, where there are several, all of it as one tile more.
// Source: Chen et al., How Far Are We to GPT-4V? (https://arxiv.org/abs/2404.16821), and the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { cutTiles } from './cut-tiles.ts';
import { decodeImage } from './decode-image.ts';
import { checkGiven } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';
import { type GridOptions, MOST_TILES, nearestGrid } from './tile-grid.ts';

const START = '<img>';
const IMAGE = '<IMG_CONTEXT>';
const END = '</img>';

interface InternVLOptions {
  readonly grid: GridOptions;
  readonly patchSize: number;
  readonly tokensPerTile: number;
  readonly filter: Filter;
  readonly colours: Colours;
}

export class InternVLProcessor implements ImageProcessor {
  readonly mark = IMAGE;
  readonly placeholder = IMAGE;
  readonly #options: InternVLOptions;

  constructor(options: InternVLOptions) {
    this.#options = options;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { grid, patchSize, tokensPerTile, filter, colours } = this.#options;
    const { size } = grid;
    const pixels = await decodeImage(file);
    const { rows, cols } = nearestGrid(pixels, grid);
    const tiles = cutTiles(resize(pixels, cols * size, rows * size, filter), size, patchSize).flat();
    if (tiles.length > 1) tiles.push(wholeTile(resize(pixels, size, size, filter), patchSize));
    const numTokens = tiles.length * tokensPerTile;
    return {
      image: prepareImage(tiles, colours, numTokens),
      text: `${START}${IMAGE.repeat(numTokens)}${END}`,
    };
  }
}

const length = z.int().positive();
const side = z.union([length, z.array(length).min(1)]).transform((one) => [one].flat()[0]!);

const modelFields = z.object({
  vision_config: z.object({ image_size: side.default(448), patch_size: side.default(14) }),
  downsample_ratio: z.number().positive().max(1).default(0.5),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  size: z.object({ height: length, width: length }).nullish(),
  min_patches: length.nullish(),
  max_patches: length.max(MOST_TILES).nullish(),
  resample: resampling.nullish(),
});

const processorFields = z.object({ image_seq_length: length.nullish() });

const givenFields = z.strictObject({
  crop_to_patches: z.boolean().nullish(),
  min_patches: length.nullish(),
  max_patches: length.max(MOST_TILES).nullish(),
});

/**
 * Images are cut whatever `crop_to_patches` of preprocessor_config.json says: the original's processor does not ask it either.
 * @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError where --mm-processor-kwargs does.
 */
export function loadInternVL(settings: ImageSettings): InternVLProcessor {
  const { config, images, given } = settings;
  const model = checkModelJson(config.path, config.json, modelFields);
  const own = checkModelJson(images.path, images.json, imageFields);
  const wanted = checkGiven(given, givenFields, 'crop_to_patches, min_patches and max_patches');
  const { image_size: size, patch_size: patchSize } = model.vision_config;
  const { height, width } = own.size ?? { height: size, width: size };
  if (height !== size || width !== size) {
    throw new ModelLoadError(
      `${images.path}: size is ${height} x ${width}, expected ${size} x ${size}, image_size of vision_config in ${config.path}: other ` +
        'sizes do not fill the encoder; fetch the model again',
    );
  }
  const most = wanted.crop_to_patches === false ? 1 : (wanted.max_patches ?? own.max_patches ?? 12);
  const least = Math.min(wanted.min_patches ?? own.min_patches ?? 1, most);
  return new InternVLProcessor({
    grid: { size, least, most },
    patchSize,
    tokensPerTile: countTokens(settings, Math.floor(size / patchSize) * model.downsample_ratio),
    filter: own.resample ?? 'bicubic',
    colours: readColours(images, { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }),
  });
}

/** @param side tokens of a tile in both directions, by config.json. */
function countTokens({ config, processor }: ImageSettings, side: number): number {
  if (!Number.isInteger(side) || side === 0) {
    throw new ModelLoadError(
      `${config.path}: a tile has ${side} tokens on each side (image_size by patch_size of vision_config, times downsample_ratio), expected a ` +
        'whole number',
    );
  }
  const tokens = side ** 2;
  const fields = processor && checkModelJson(processor.path, processor.json, processorFields);
  const stated = fields?.image_seq_length ?? tokens;
  if (stated === tokens) return tokens;
  throw new ModelLoadError(
    `${processor?.path}: image_seq_length is ${stated}, but by ${config.path} a tile has ${tokens} tokens; fetch the model again`,
  );
}
