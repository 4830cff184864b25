// Images as Pixtral sees them, in Mistral 3 and its kin: in their own form, one tile of as many patches as they need.
// Source: Agrawal et al., Pixtral 12B (https://arxiv.org/abs/2410.07073), and the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { decodeImage } from './decode-image.ts';
import { longestEdge } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';

interface PixtralOptions {
  /** The longer side of an image at most, in pixels, before it is rounded up. */
  readonly longestEdge: number;
  readonly patchSize: number;
  /** So many patches below each other and beside each other become one token. */
  readonly mergeSize: number;
  readonly tokens: {
    readonly image: string;
    /** Between two lines. */
    readonly lineBreak: string;
    readonly end: string;
  };
  readonly filter: Filter;
  readonly colours: Colours;
}

export class PixtralProcessor implements ImageProcessor {
  readonly mark: string;
  readonly placeholder: string;
  readonly #options: PixtralOptions;

  constructor(options: PixtralOptions) {
    this.#options = options;
    this.mark = options.tokens.image;
    this.placeholder = options.tokens.image;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { longestEdge, patchSize, mergeSize, tokens, filter, colours } = this.#options;
    const pixels = await decodeImage(file);
    const step = patchSize * mergeSize;
    // Images are made smaller, never larger than the next whole token.
    const shrink = Math.max(pixels.width / longestEdge, pixels.height / longestEdge, 1);
    const countTokens = (length: number): number =>
      Math.max(Math.ceil(Math.floor(length / shrink) / step), 1);
    const cols = countTokens(pixels.width);
    const rows = countTokens(pixels.height);
    const tile = wholeTile(resize(pixels, cols * step, rows * step, filter), patchSize);
    const line = tokens.image.repeat(cols);
    return {
      image: prepareImage([tile], colours, rows * cols),
      text: `${Array(rows).fill(line).join(tokens.lineBreak)}${tokens.end}`,
    };
  }
}

const length = z.int().positive();

const modelFields = z.object({
  vision_config: z.object({ patch_size: length.default(16) }),
  spatial_merge_size: length.default(2),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  do_center_crop: z.literal(false).nullish(),
  size: z.object({ longest_edge: length }).nullish(),
  resample: resampling.nullish(),
});

const processorFields = z.object({
  patch_size: length.nullish(),
  spatial_merge_size: length.nullish(),
  image_token: z.string().min(1).nullish(),
  image_break_token: z.string().min(1).nullish(),
  image_end_token: z.string().min(1).nullish(),
});

/** Of a model whose files leave it out. */
const USUAL_EDGE = 1024;

/** @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError as of `longestEdge`. */
export function loadPixtral(settings: ImageSettings): PixtralProcessor {
  const { config, images, given } = settings;
  const model = checkModelJson(config.path, config.json, modelFields);
  const fields = checkModelJson(images.path, images.json, imageFields);
  const processor = checkModelJson(
    settings.processor?.path ?? images.path,
    settings.processor?.json ?? {},
    processorFields,
  );
  const patchSize = model.vision_config.patch_size;
  const mergeSize = model.spatial_merge_size;
  if (
    (processor.patch_size ?? patchSize) !== patchSize ||
    (processor.spatial_merge_size ?? mergeSize) !== mergeSize
  ) {
    throw new ModelLoadError(
      `${settings.processor?.path}: patch_size and spatial_merge_size are not those of ${config.path}, ${patchSize} and ` +
        `${mergeSize}; fetch the model again`,
    );
  }
  return new PixtralProcessor({
    longestEdge: longestEdge(given, fields.size?.longest_edge ?? USUAL_EDGE),
    patchSize,
    mergeSize,
    tokens: {
      image: processor.image_token ?? '[IMG]',
      lineBreak: processor.image_break_token ?? '[IMG_BREAK]',
      end: processor.image_end_token ?? '[IMG_END]',
    },
    filter: fields.resample ?? 'bicubic',
    colours: readColours(images, {
      mean: [0.48145466, 0.4578275, 0.40821073],
      std: [0.26862954, 0.26130258, 0.27577711],
    }),
  });
}
