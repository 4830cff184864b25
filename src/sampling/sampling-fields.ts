// The sampling fields that a caller may set, over HTTP or in a program: one schema, one wording of its errors.

import * as z from 'zod';
import { InvalidRequestError, NotAvailableError } from '../errors.ts';
import { atMost, listOf, tokenIdsOf } from '../util/bounded-schemas.ts';
import { jsonForms } from '../util/json-schema.ts';
import { zodMessage } from '../util/zod-message.ts';
import { structuredOutputsSchema } from './structured-outputs.ts';

const MAX_N = 16384;

/** Bounds of lists that every token of an answer is checked against, at the cost of other requests. */
const MAX_STOP_TEXTS = 64;
const MAX_STOP_LENGTH = 1024;
const MAX_STOP_TOKENS = 1024;
const MAX_BIASES = 1024;
const MAX_BAD_WORDS = 1024;
/** Characters of all bad words together: each is tokenised twice. */
const MAX_BAD_TEXT = 32_768;
const MAX_LOGPROB_TOKENS = 1024;
/** Tokens of a pattern, and how often it is looked for: each token of an answer is compared so often at most. */
const MAX_PATTERN = 256;
const MAX_REPETITIONS = 1024;
/** No vocabulary has more. */
const MAX_ALLOWED_TOKENS = 300_000;

const nonEmptyText = z
  .string()
  .min(1, 'must not contain empty strings')
  .refine((value) => !/\p{Surrogate}/u.test(value), 'must not contain half characters (lone surrogates)');
const stopText = nonEmptyText.max(MAX_STOP_LENGTH);
const penalty = z.number().min(-2).max(2);
const biases = atMost<Record<string, number>>(MAX_BIASES, 'tokens').pipe(
  z.record(z.string().regex(/^\d{1,10}$/, 'keys must be token ids'), z.number()),
);
const numLogprobs = z.int().min(-1);
const MAX_SEED = 2 ** 63;
/** Of 64 bits, as clients draw them; those beyond the digits of a double are rounded, the same way every time. */
const seed = z
  .number()
  .refine(Number.isInteger, { error: 'must be an integer', abort: true })
  .min(-MAX_SEED)
  .max(MAX_SEED)
  .register(jsonForms, { form: () => ({ type: 'integer', minimum: -MAX_SEED, maximum: MAX_SEED }) });
const patternSize = z.int().min(0).max(MAX_PATTERN);
const repetitionDetection = z.looseObject({
  max_pattern_size: patternSize,
  /** 0 and left out are 1. */
  min_pattern_size: patternSize.nullish(),
  min_count: z.int().min(2).max(MAX_REPETITIONS),
});

/** The fields of sampling that svc serves, in the protocol's spelling; null and absent mean the default. */
export const samplingFields = {
  n: z.int().min(1).max(MAX_N).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed: seed.nullish(),
  stop: z.union([stopText, listOf(stopText, MAX_STOP_TEXTS)]).nullish(),
  stop_token_ids: tokenIdsOf(MAX_STOP_TOKENS).nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  ignore_eos: z.boolean().nullish(),
  max_tokens: z.int().min(1).nullish(),
  min_tokens: z.int().min(0).nullish(),
  presence_penalty: penalty.nullish(),
  frequency_penalty: penalty.nullish(),
  repetition_penalty: z.number().gt(0).nullish(),
  logit_bias: biases.nullish(),
  allowed_token_ids: tokenIdsOf(MAX_ALLOWED_TOKENS)
    .refine((ids) => ids.length > 0, 'must not be empty: leave it out to allow all tokens')
    .nullish(),
  bad_words: listOf(nonEmptyText, MAX_BAD_WORDS)
    .refine(
      (words) => lengthOf(words) <= MAX_BAD_TEXT,
      `must have at most ${MAX_BAD_TEXT} characters together`,
    )
    .nullish(),
  structured_outputs: structuredOutputsSchema.nullish(),
  /** True asks for one; -1 for the whole vocabulary. */
  logprobs: z.union([z.boolean(), numLogprobs]).nullish(),
  prompt_logprobs: numLogprobs.nullish(),
  truncate_prompt_tokens: z
    .int()
    .refine((value) => value === -1 || value >= 1, 'must be -1 or at least 1')
    .nullish(),
  /** Which end of a prompt that is truncated is kept is the other one. */
  truncation_side: z.enum(['left', 'right']).nullish(),
  /** Log-probabilities of these tokens in the place of the most probable ones. */
  logprob_token_ids: tokenIdsOf(MAX_LOGPROB_TOKENS).nullish(),
  /** An answer ends that repeats a pattern of so many tokens so often; a longest pattern of 0 is off. */
  repetition_detection: repetitionDetection.nullish(),
  detokenize: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  spaces_between_special_tokens: z.boolean().nullish(),
} as const;

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}

/** Among the values that ask for nothing: an empty list or map, which some clients send by default. */
export const EMPTY = Symbol('an empty list or map');

/** Fields that the protocol defines and this version refuses, with the value that means "not used". */
export const unavailableSamplingFields: Readonly<Record<string, readonly unknown[]>> = {
  use_beam_search: [false],
  length_penalty: [1],
  best_of: [1],
};

/** Every field of sampling that the protocol knows, served or not. */
export const SAMPLING_FIELD_NAMES: readonly string[] = [
  ...Object.keys(samplingFields),
  ...Object.keys(unavailableSamplingFields),
];

const schema = z.object(samplingFields);

type Lists<T> = T extends (infer Element)[] ? readonly Element[] : T;

/** Sampling fields as a caller writes them; lists may be readonly. */
export type SamplingInput = {
  readonly [Field in keyof z.input<typeof schema>]: Lists<z.input<typeof schema>[Field]>;
};

/** The same, checked. */
export type SamplingFields = z.output<typeof schema>;

/**
 * Checks the sampling fields of a program; the HTTP server has `samplingFields` in the schemas of its bodies.
 * @throws InvalidRequestError naming the field, the rule and the value.
 * @throws NotAvailableError for a field of the protocol whose feature svc does not serve yet.
 */
export function parseSamplingFields(input: object): SamplingFields {
  refuseUnavailable(input, unavailableSamplingFields);
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new InvalidRequestError(zodMessage(parsed.error, input, 'sampling_params'), {
    param: String(parsed.error.issues[0]?.path[0] ?? 'sampling_params'),
  });
}

/**
 * @param instead what to do for fields that have something in their place; others are left out.
 * @throws NotAvailableError for the first field of `table` that `input` sets to something that would matter.
 */
export function refuseUnavailable(
  input: object,
  table: Readonly<Record<string, readonly unknown[]>>,
  instead: ReadonlyMap<string, string> = new Map(),
): void {
  for (const [field, value] of Object.entries(input)) {
    // A field may have the name of something that every object inherits, such as `constructor`.
    const neutral = Object.hasOwn(table, field) ? table[field] : undefined;
    if (neutral === undefined || value === null || value === undefined) continue;
    if (neutral.includes(value) || (neutral.includes(EMPTY) && isEmpty(value))) continue;
    const remedy = instead.get(field);
    const why =
      remedy === undefined
        ? 'is not available yet in this version of svc; leave it out'
        : `is not available in svc; ${remedy}`;
    throw new NotAvailableError(`${field} ${why}`, { param: field });
  }
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
