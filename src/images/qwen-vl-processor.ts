// Images as Qwen-VL sees them, from Qwen2-VL to Qwen3.5: in their own form, one tile of whole tokens, whose area is bounded.
// Source: Wang et al., Qwen2-VL (https://arxiv.org/abs/2409.12191), and the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { decodeImage } from './decode-image.ts';
import { type Area, fitArea, largestArea } from './fit-area.ts';
import { checkGiven } from './given-fields.ts';
import { type ImageProcessor, MOST_PATCHES, type ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';

/** Of longer ones the narrowest image could be rounded up to more than `MOST_PATCHES`. */
const MOST_MERGED = 4;

const IMAGE = '<|image_pad|>';

interface QwenVLOptions {
  /** Of an image, in pixels, before its sides are whole tokens. */
  readonly area: Area;
  readonly patchSize: number;
  /** So many patches below each other and beside each other become one token. */
  readonly mergeSize: number;
  readonly filter: Filter;
  readonly colours: Colours;
}

export class QwenVLProcessor implements ImageProcessor {
  readonly mark = IMAGE;
  readonly placeholder = IMAGE;
  readonly mostPatches: number;
  readonly #options: QwenVLOptions;

  constructor(options: QwenVLOptions) {
    this.#options = options;
    const { area, patchSize, mergeSize } = options;
    const largest = largestArea(area, patchSize * mergeSize) / patchSize ** 2;
    this.mostPatches = Math.min(MOST_PATCHES, Math.ceil(largest));
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { area, patchSize, mergeSize, filter, colours } = this.#options;
    const pixels = await decodeImage(file);
    const { width, height } = fitArea(pixels, patchSize * mergeSize, area);
    const tile = wholeTile(resize(pixels, width, height, filter), patchSize);
    const grid = { rows: tile.rows / mergeSize, cols: tile.cols / mergeSize };
    const numTokens = grid.rows * grid.cols;
    return { image: prepareImage([tile], colours, numTokens, grid), text: IMAGE.repeat(numTokens) };
  }
}

const length = z.int().positive();

const modelFields = z.object({
  vision_config: z.object({
    patch_size: length.nullish(),
    spatial_merge_size: length.max(MOST_MERGED).default(2),
  }),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  min_pixels: length.nullish(),
  max_pixels: length.nullish(),
  size: z.object({ shortest_edge: length.nullish(), longest_edge: length.nullish() }).nullish(),
  patch_size: length.nullish(),
  merge_size: length.nullish(),
  /** An image is shown to the encoder as two pictures of a video. */
  temporal_patch_size: z.literal(2).nullish(),
  resample: resampling.nullish(),
});

const givenFields = z.strictObject({
  min_pixels: length.nullish(),
  max_pixels: length.nullish(),
  size: z.strictObject({ shortest_edge: length.nullish(), longest_edge: length.nullish() }).nullish(),
});

type ImageFields = z.output<typeof imageFields>;

/** Of a model whose files leave it out, in pixels. */
const USUAL_PATCH = 14;
const USUAL_AREA: Area = { least: 56 * 56, most: 28 * 28 * 1280 };

/**
 * @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError where --mm-processor-kwargs
 * does.
 */
export function loadQwenVL(settings: ImageSettings): QwenVLProcessor {
  const { config, images } = settings;
  const { vision_config: vision } = checkModelJson(config.path, config.json, modelFields);
  const fields = checkModelJson(images.path, images.json, imageFields);
  const patchSize = vision.patch_size ?? fields.patch_size ?? USUAL_PATCH;
  const mergeSize = vision.spatial_merge_size;
  if ((fields.patch_size ?? patchSize) !== patchSize || (fields.merge_size ?? mergeSize) !== mergeSize) {
    throw new ModelLoadError(
      `${images.path}: patch_size and merge_size are not patch_size and spatial_merge_size of vision_config in ${config.path}, ` +
        `${patchSize} and ${mergeSize}; fetch the model again`,
    );
  }
  return new QwenVLProcessor({
    area: readArea(fields, settings, patchSize),
    patchSize,
    mergeSize,
    filter: fields.resample ?? 'bicubic',
    colours: readColours(images, {
      mean: [0.48145466, 0.4578275, 0.40821073],
      std: [0.26862954, 0.26130258, 0.27577711],
    }),
  });
}

/** The edges of `size` are areas, too. */
function readArea({ size, ...fields }: ImageFields, { given }: ImageSettings, patchSize: number): Area {
  const { size: wanted, ...own } = checkGiven(
    given,
    givenFields,
    'min_pixels and max_pixels, or both as shortest_edge and longest_edge of size',
  );
  const least = own.min_pixels ?? wanted?.shortest_edge ?? fields.min_pixels ?? size?.shortest_edge;
  const most = own.max_pixels ?? wanted?.longest_edge ?? fields.max_pixels ?? size?.longest_edge;
  const bound = MOST_PATCHES * patchSize ** 2;
  const bounded = Math.min(most ?? USUAL_AREA.most, bound);
  // Whoever wants small images need not say so twice; and sides that are rounded up stay within the bound.
  return { least: Math.min(least ?? USUAL_AREA.least, bounded, bound / 2), most: bounded };
}
