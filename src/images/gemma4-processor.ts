// Images as Gemma 4 sees them: in their own form, one tile of as many patches as the most tokens stand for.
// Source: the processor of Hugging Face transformers.

import * as z from 'zod';
import { ConfigError, ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { decodeImage } from './decode-image.ts';
import { TOKEN_LIMITS } from './gemma4-tokens.ts';
import { checkGiven } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import type { Pixels } from './pixels.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';

const START = '<|image>';
const IMAGE = '<|image|>';
const END = '<image|>';

interface Gemma4Options {
  /** Of an image. */
  readonly mostTokens: number;
  readonly patchSize: number;
  /** So many patches below each other and beside each other become one token. */
  readonly mergeSize: number;
  readonly filter: Filter;
  readonly colours: Colours;
}

export class Gemma4Processor implements ImageProcessor {
  readonly mark = IMAGE;
  readonly placeholder = IMAGE;
  readonly mostPatches: number;
  readonly #options: Gemma4Options;

  constructor(options: Gemma4Options) {
    this.#options = options;
    this.mostPatches = options.mostTokens * options.mergeSize ** 2;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { mostTokens, patchSize, mergeSize, filter, colours } = this.#options;
    const pixels = await decodeImage(file);
    const step = patchSize * mergeSize;
    const { cols, rows } = fitTokens(pixels, step, mostTokens);
    const tile = wholeTile(resize(pixels, cols * step, rows * step, filter), patchSize);
    const numTokens = rows * cols;
    return {
      image: prepareImage([tile], colours, numTokens),
      text: `${START}${IMAGE.repeat(numTokens)}${END}`,
    };
  }
}

/**
 * As many tokens of `step` pixels as the image has in its form where it is as large as `most` of them, whether that is more or less than it
 * has. A very narrow one is a line of them.
 */
function fitTokens({ width, height }: Pixels, step: number, most: number): { cols: number; rows: number } {
  const factor = Math.sqrt((most * step ** 2) / (width * height));
  const [cols, rows] = [width, height].map((length) => Math.floor((factor * length) / step));
  if (rows === 0) return { cols: Math.min(Math.floor(width / height), most), rows: 1 };
  if (cols === 0) return { cols: 1, rows: Math.min(Math.floor(height / width), most) };
  return { cols: cols!, rows: rows! };
}

const length = z.int().positive();
const limit = z.literal(TOKEN_LIMITS);

const modelFields = z.object({
  vision_config: z.object({
    patch_size: length.default(16),
    pooling_kernel_size: length.default(3),
    position_embedding_size: length.default(10240),
  }),
  text_config: z.object({
    use_bidirectional_attention: z.string().nullish(),
    sliding_window: length.nullish(),
  }),
});

const imageFields = z.object({
  do_resize: z.literal(true).nullish(),
  patch_size: length.nullish(),
  pooling_kernel_size: length.nullish(),
  max_soft_tokens: limit.nullish(),
  resample: resampling.nullish(),
});

const givenFields = z.strictObject({ max_soft_tokens: limit.nullish() });

/** Of a model whose files leave it out. */
const USUAL_TOKENS = 280;
const USUAL_WINDOW = 512;

/**
 * @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError where --mm-processor-kwargs
 * does.
 */
export function loadGemma4(settings: ImageSettings): Gemma4Processor {
  const { config, images } = settings;
  const { vision_config: vision } = checkModelJson(config.path, config.json, modelFields);
  const fields = checkModelJson(images.path, images.json, imageFields);
  const { patch_size: patchSize, pooling_kernel_size: mergeSize } = vision;
  if (
    (fields.patch_size ?? patchSize) !== patchSize ||
    (fields.pooling_kernel_size ?? mergeSize) !== mergeSize
  ) {
    throw new ModelLoadError(
      `${images.path}: patch_size and pooling_kernel_size are not those of vision_config in ${config.path}, ${patchSize} and ` +
        `${mergeSize}; fetch the model again`,
    );
  }
  const { factors, offsets } = readColours(images, { mean: [0, 0, 0], std: [1, 1, 1] });
  return new Gemma4Processor({
    mostTokens: readMostTokens(settings, fields.max_soft_tokens ?? USUAL_TOKENS),
    patchSize,
    mergeSize,
    filter: fields.resample ?? 'bicubic',
    // Numbers from 0 to 1, which the model brings to -1 to 1.
    colours: {
      factors: factors.map((factor) => 2 * factor),
      offsets: offsets.map((offset) => 2 * offset - 1),
    },
  });
}

/** What is given, else the model's own. */
function readMostTokens({ config, images, given }: ImageSettings, own: number): number {
  const wanted = checkGiven(
    given,
    givenFields,
    `max_soft_tokens (${TOKEN_LIMITS.join(', ')})`,
  ).max_soft_tokens;
  const tokens = wanted ?? own;
  const reason = whyTooMany(checkModelJson(config.path, config.json, modelFields), tokens);
  if (reason === null) return tokens;
  const message = `max_soft_tokens is ${tokens}, but ${reason} of ${config.path}; take fewer`;
  if (wanted === null || wanted === undefined) throw new ModelLoadError(`${images.path}: ${message}`);
  throw new ConfigError(`--mm-processor-kwargs: ${message}`, { param: 'mm-processor-kwargs' });
}

/** Null where the model sees images of so many tokens. */
function whyTooMany(
  { vision_config: vision, text_config: text }: z.output<typeof modelFields>,
  tokens: number,
): string | null {
  const { pooling_kernel_size: mergeSize, position_embedding_size: positions } = vision;
  if (tokens * mergeSize > positions)
    return `the narrowest image would be longer than the ${positions} patches of position_embedding_size`;
  const window = text.sliding_window ?? USUAL_WINDOW;
  // In a window tokens of an image see the later ones of it, however far.
  if (text.use_bidirectional_attention === 'vision' && tokens > window)
    return `tokens of an image see each other in the ${window} of sliding_window`;
  return null;
}
