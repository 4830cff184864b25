// What the files of a model and --mm-processor-kwargs say of its images, and the fields that all of them have in common.

import * as z from 'zod';
import { checkModelJson, type ModelText, parseModelJson } from '../util/model-file.ts';
import type { ModelFiles } from '../util/model-files.ts';
import type { GivenFields } from './given-fields.ts';
import { CHANNELS } from './pixels.ts';
import type { Colours } from './prepare-image.ts';
import type { Filter } from './resize.ts';

interface JsonFile {
  /** For messages. */
  readonly path: string;
  readonly json: unknown;
}

/** Plain data. */
export interface ImageSettings {
  readonly config: JsonFile;
  /** How pixels are made ready. */
  readonly images: JsonFile;
  /** processor_config.json: the text that stands for an image. */
  readonly processor: JsonFile | null;
  /** Of --mm-processor-kwargs: it wins over the files. */
  readonly given: GivenFields;
}

const withImages = z.object({ image_processor: z.record(z.string(), z.unknown()).nullish() });

/** Null where the model does not say how pixels are made ready. */
export function findImageSettings(
  config: JsonFile,
  files: ModelFiles,
  given: GivenFields,
): ImageSettings | null {
  const processor = readJson(files.read('processor_config.json'));
  // Newer files have it all in one, which counts where there are both.
  const inner = processor && checkModelJson(processor.path, processor.json, withImages).image_processor;
  const images = inner
    ? { path: processor.path, json: inner }
    : readJson(files.read('preprocessor_config.json'));
  return images && { config, images, processor, given };
}

function readJson(text: ModelText | null): JsonFile | null {
  return text && { path: text.path, json: parseModelJson(text, z.unknown()) };
}

/** Filters by their numbers in Pillow. */
const FILTERS = { 1: 'lanczos', 2: 'bilinear', 3: 'bicubic' } as const satisfies Record<number, Filter>;

export const resampling = z.literal([1, 2, 3]).transform((number): Filter => FILTERS[number]);

const threeNumbers = z.array(z.number()).length(CHANNELS);
const divisor = z.number().positive();

const colourFields = z.object({
  do_rescale: z.boolean().nullish(),
  rescale_factor: z.number().positive().nullish(),
  do_normalize: z.boolean().nullish(),
  image_mean: threeNumbers.nullish(),
  image_std: z.array(divisor).length(CHANNELS).nullish(),
});

/** Bytes are scaled first; then the mean of their colour is taken away, and they are divided by its deviation. */
export function readColours(
  { path, json }: JsonFile,
  usual: { readonly mean: readonly number[]; readonly std: readonly number[] },
): Colours {
  const fields = checkModelJson(path, json, colourFields);
  const scale = fields.do_rescale === false ? 1 : (fields.rescale_factor ?? 1 / 255);
  const isNormalised = fields.do_normalize ?? true;
  const mean = isNormalised ? (fields.image_mean ?? usual.mean) : [0, 0, 0];
  const std = isNormalised ? (fields.image_std ?? usual.std) : [1, 1, 1];
  return {
    factors: std.map((one) => scale / one),
    offsets: std.map((one, colour) => -mean[colour]! / one),
  };
}
