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
  readonly isLineOfText = true;
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
  size: z
    .union([
      length.transform((one) => ({ height: one, width: one })),
      z.object({ height: length, width: length }),
    ])
    .nullish(),
  resample: resampling.nullish(),
});

const processorFields = z.object({ image_seq_length: length.nullish() });

const numTiles = length.max(MOST_TILES).nullish();

const tileFields = z.object({ min_patches: numTiles, max_patches: numTiles });
const givenTiles = z.strictObject({
  crop_to_patches: z.boolean().nullish(),
  min_patches: numTiles,
  max_patches: numTiles,
});

/**
 * Images are cut whatever `crop_to_patches` of preprocessor_config.json says: the original's processor does not ask it either.
 * @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError where --mm-processor-kwargs does.
 */
export function loadInternVL(settings: ImageSettings): InternVLProcessor {
  const { images, given } = settings;
  const own = checkModelJson(images.path, images.json, tileFields);
  const wanted = checkGiven(given, givenTiles, 'crop_to_patches, min_patches and max_patches');
  return makeProcessor(settings, {
    isCut: wanted.crop_to_patches ?? true,
    least: wanted.min_patches ?? own.min_patches ?? 1,
    most: wanted.max_patches ?? own.max_patches ?? 12,
  });
}

const chatFields = z.object({
  dynamic_image_size: z.boolean().nullish(),
  min_dynamic_patch: numTiles,
  max_dynamic_patch: numTiles,
  use_thumbnail: z.literal(true).nullish(),
  pad2square: z.literal(false).nullish(),
});
const givenChat = z.strictObject({
  dynamic_image_size: z.boolean().nullish(),
  min_dynamic_patch: numTiles,
  max_dynamic_patch: numTiles,
});

/** The same of a model in the form of its authors, who say it in config.json. */
export function loadInternVLChat(settings: ImageSettings): InternVLProcessor {
  const { config, given } = settings;
  const own = checkModelJson(config.path, config.json, chatFields);
  const takes = 'dynamic_image_size, min_dynamic_patch and max_dynamic_patch';
  const wanted = checkGiven(given, givenChat, takes);
  return makeProcessor(settings, {
    isCut: wanted.dynamic_image_size ?? own.dynamic_image_size ?? true,
    least: wanted.min_dynamic_patch ?? own.min_dynamic_patch ?? 1,
    most: wanted.max_dynamic_patch ?? own.max_dynamic_patch ?? 12,
  });
}

interface Cuts {
  /** Where it is not, all of an image is one tile. */
  readonly isCut: boolean;
  readonly least: number;
  readonly most: number;
}

function makeProcessor(settings: ImageSettings, { isCut, least, most: mostTiles }: Cuts): InternVLProcessor {
  const { config, images } = settings;
  const model = checkModelJson(config.path, config.json, modelFields);
  const own = checkModelJson(images.path, images.json, imageFields);
  const { image_size: size, patch_size: patchSize } = model.vision_config;
  const { height, width } = own.size ?? { height: size, width: size };
  if (height !== size || width !== size) {
    throw new ModelLoadError(
      `${images.path}: size is ${height} x ${width}, expected ${size} x ${size}, image_size of vision_config in ${config.path}: other ` +
        'sizes do not fill the encoder; fetch the model again',
    );
  }
  const most = isCut ? mostTiles : 1;
  return new InternVLProcessor({
    grid: { size, least: Math.min(least, most), most },
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
