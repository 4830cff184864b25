// Images as Gemma 3 sees them: each one square of the same size, whatever form it had.
// Source: Gemma Team, Gemma 3 Technical Report (https://arxiv.org/abs/2503.19786), and the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { decodeImage } from './decode-image.ts';
import { checkGiven } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';

const START = '<start_of_image>';
const IMAGE = '<image_soft_token>';
const END = '<end_of_image>';

interface Gemma3Options {
  /** Of every image, in pixels. What is behind its last whole patch is not seen. */
  readonly side: number;
  readonly patchSize: number;
  readonly numTokens: number;
  readonly filter: Filter;
  readonly colours: Colours;
}

export class Gemma3Processor implements ImageProcessor {
  readonly mark = START;
  readonly placeholder = IMAGE;
  readonly #options: Gemma3Options;

  constructor(options: Gemma3Options) {
    this.#options = options;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { side, patchSize, numTokens, filter, colours } = this.#options;
    const square = resize(await decodeImage(file), side, side, filter);
    return {
      image: prepareImage([wholeTile(square, patchSize)], colours, numTokens),
      text: `\n\n${START}${IMAGE.repeat(numTokens)}${END}\n\n`,
    };
  }
}

const length = z.int().positive();

const modelFields = z.object({
  vision_config: z.object({ image_size: length.default(224), patch_size: length.default(16) }),
  mm_tokens_per_image: length.default(256),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  /** Parts of wide images as further tiles: no release has it switched on. */
  do_pan_and_scan: z.literal(false).nullish(),
  size: z.object({ height: length, width: length }).nullish(),
  resample: resampling.nullish(),
});

const processorFields = z.object({ image_seq_length: length.nullish() });

/**
 * @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError where --mm-processor-kwargs
 * names anything.
 */
export function loadGemma3(settings: ImageSettings): Gemma3Processor {
  const { config, images, given } = settings;
  const model = checkModelJson(config.path, config.json, modelFields);
  const fields = checkModelJson(images.path, images.json, imageFields);
  checkGiven(given, z.strictObject({}), 'none');
  const { image_size: side, patch_size: patchSize } = model.vision_config;
  const { height, width } = fields.size ?? { height: side, width: side };
  if (height !== side || width !== side) {
    throw new ModelLoadError(
      `${images.path}: size is ${height} x ${width}, expected ${side} x ${side}, image_size of vision_config in ${config.path}: other ` +
        'sizes do not fill the encoder; fetch the model again',
    );
  }
  return new Gemma3Processor({
    side,
    patchSize,
    numTokens: countTokens(settings, Math.floor(side / patchSize), model.mm_tokens_per_image),
    filter: fields.resample ?? 'bilinear',
    colours: readColours(images, { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }),
  });
}

/**
 * @param side patches in both directions
 * @param tokens of an image, by config.json: each stands for a square of patches.
 */
function countTokens({ config, processor }: ImageSettings, side: number, tokens: number): number {
  if (side === 0 || side % Math.sqrt(tokens) !== 0) {
    throw new ModelLoadError(
      `${config.path}: mm_tokens_per_image is ${tokens}, expected the square of a number that divides ${side}, the patches of a side ` +
        '(image_size by patch_size of vision_config)',
    );
  }
  const fields = processor && checkModelJson(processor.path, processor.json, processorFields);
  const stated = fields?.image_seq_length ?? tokens;
  if (stated === tokens) return tokens;
  throw new ModelLoadError(
    `${processor?.path}: image_seq_length is ${stated}, but mm_tokens_per_image of ${config.path} is ${tokens}; fetch the model again`,
  );
}
