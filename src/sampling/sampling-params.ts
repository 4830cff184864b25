// What a caller may ask of sampling and stopping, checked once; everything behind it gets `SamplingParams`.

import { z } from 'zod';
import { InvalidRequestError, NotAvailableError } from '../errors.ts';
import { atMost, listOf, tokenIdsOf } from '../util/bounded-schemas.ts';
import { preview } from '../util/preview.ts';

/** Largest number of samples of one prompt. */
const MAX_N = 16384;

/** What every token of an answer is compared with or changed by, while others wait for theirs. */
const MAX_STOP_TEXTS = 64;
const MAX_STOP_LENGTH = 1024;
const MAX_STOP_TOKENS = 1024;
const MAX_BIASES = 1024;
const MAX_BAD_WORDS = 1024;
/** Characters of all bad words together: each is tokenised twice. */
const MAX_BAD_TEXT = 32_768;
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

/** The fields of sampling that svc serves, in the protocol's spelling; null and absent mean the default. */
export const samplingFields = {
  n: z.int().min(1).max(MAX_N).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
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
  /** True asks for one; -1 for the whole vocabulary. */
  logprobs: z.union([z.boolean(), numLogprobs]).nullish(),
  prompt_logprobs: numLogprobs.nullish(),
  truncate_prompt_tokens: z
    .int()
    .refine((value) => value === -1 || value >= 1, 'must be -1 or at least 1')
    .nullish(),
  detokenize: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  spaces_between_special_tokens: z.boolean().nullish(),
} as const;

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}

/** Fields that the protocol defines and this version refuses, with the value that means "not used". */
export const unavailableSamplingFields: Readonly<Record<string, readonly unknown[]>> = {
  logprob_token_ids: [],
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

/** Sampling fields as a caller writes them. */
export type SamplingInput = z.input<typeof schema>;

/** Defaults of a model or a server: a field left out by the caller takes its value from here. */
export interface SamplingDefaults {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly max_tokens?: number;
}

/** Sampling and stopping of one request, complete. */
export interface SamplingParams {
  readonly n: number;
  readonly temperature: number;
  readonly top_p: number;
  /** 0 is off. */
  readonly top_k: number;
  readonly min_p: number;
  readonly seed: number | null;
  readonly stop: readonly string[];
  readonly stop_token_ids: readonly number[];
  readonly include_stop_str_in_output: boolean;
  readonly ignore_eos: boolean;
  /** Null is all that fits into the context. */
  readonly max_tokens: number | null;
  /** No end token, stop token or stop string counts before this many tokens. */
  readonly min_tokens: number;
  readonly presence_penalty: number;
  readonly frequency_penalty: number;
  readonly repetition_penalty: number;
  /** By token id, each from -100 to 100. */
  readonly logit_bias: Readonly<Record<string, number>>;
  /** Null allows all. */
  readonly allowed_token_ids: readonly number[] | null;
  readonly bad_words: readonly string[];
  /** Most probable tokens to report beside each sampled one, -1 for all; null reports nothing. */
  readonly logprobs: number | null;
  /** The same for the tokens of the prompt. */
  readonly prompt_logprobs: number | null;
  /** Keep this many tokens at the end of the prompt; -1 as many as leave room for the answer. */
  readonly truncate_prompt_tokens: number | null;
  /** False makes no text. */
  readonly detokenize: boolean;
  readonly skip_special_tokens: boolean;
  readonly spaces_between_special_tokens: boolean;
}

/** Greedy below this temperature: the division would only turn rounding into noise. */
const GREEDY_BELOW = 1e-5;
/** Biases beyond this are cut to it. */
const MAX_BIAS = 100;

type Given = z.output<typeof schema>;

/**
 * Checks `input` and fills in what it leaves out.
 * @throws InvalidRequestError naming the field, the rule and the value.
 * @throws NotAvailableError for a protocol field whose feature svc does not serve yet.
 */
export function resolveSamplingParams(input: SamplingInput, defaults: SamplingDefaults = {}): SamplingParams {
  refuseUnavailable(input, unavailableSamplingFields);
  const parsed = schema.safeParse(input);
  if (!parsed.success) throw firstIssue(parsed.error, input);
  const given = parsed.data;
  const params = {
    ...drawing(given, defaults),
    ...logitRules(given, defaults),
    ...ending(given, defaults),
    ...output(given),
  };
  checkTogether(params);
  return params;
}

function drawing(given: Given, defaults: SamplingDefaults) {
  const temperature = given.temperature ?? defaults.temperature ?? 1;
  const greedy = temperature < GREEDY_BELOW;
  return {
    n: given.n ?? 1,
    temperature: greedy ? 0 : temperature,
    top_p: greedy ? 1 : (given.top_p ?? defaults.top_p ?? 1),
    top_k: greedy ? 0 : Math.max(0, given.top_k ?? defaults.top_k ?? 0),
    min_p: greedy ? 0 : (given.min_p ?? defaults.min_p ?? 0),
    seed: given.seed === -1 ? null : (given.seed ?? null),
  };
}

function logitRules(given: Given, defaults: SamplingDefaults) {
  const biases = Object.entries(given.logit_bias ?? {}).map(([id, bias]): [string, number] => [
    id,
    Math.max(-MAX_BIAS, Math.min(MAX_BIAS, bias)),
  ]);
  return {
    presence_penalty: given.presence_penalty ?? 0,
    frequency_penalty: given.frequency_penalty ?? 0,
    repetition_penalty: given.repetition_penalty ?? defaults.repetition_penalty ?? 1,
    logit_bias: Object.fromEntries(biases),
    allowed_token_ids: given.allowed_token_ids ?? null,
    bad_words: given.bad_words ?? [],
  };
}

function ending(given: Given, defaults: SamplingDefaults) {
  return {
    stop: typeof given.stop === 'string' ? [given.stop] : (given.stop ?? []),
    stop_token_ids: given.stop_token_ids ?? [],
    include_stop_str_in_output: given.include_stop_str_in_output ?? false,
    ignore_eos: given.ignore_eos ?? false,
    min_tokens: given.min_tokens ?? 0,
    max_tokens: given.max_tokens ?? defaults.max_tokens ?? null,
  };
}

function output(given: Given) {
  return {
    logprobs: typeof given.logprobs === 'boolean' ? (given.logprobs ? 1 : null) : (given.logprobs ?? null),
    prompt_logprobs: given.prompt_logprobs ?? null,
    truncate_prompt_tokens: given.truncate_prompt_tokens ?? null,
    detokenize: given.detokenize ?? true,
    skip_special_tokens: given.skip_special_tokens ?? true,
    spaces_between_special_tokens: given.spaces_between_special_tokens ?? true,
  };
}

/** Fields that are right alone and wrong together. */
function checkTogether(params: SamplingParams): void {
  const { min_tokens, max_tokens, stop, detokenize } = params;
  if (max_tokens !== null && min_tokens > max_tokens) {
    throw new InvalidRequestError(
      `min_tokens must be at most max_tokens (${max_tokens}), got ${min_tokens}`,
      {
        param: 'min_tokens',
      },
    );
  }
  if (!detokenize && stop.length > 0) {
    throw new InvalidRequestError(
      'stop needs text to search in, and detokenize is false: use stop_token_ids',
      { param: 'stop' },
    );
  }
}

/**
 * For callers whom equal samples would surprise; a chat may ask for them.
 * @throws InvalidRequestError where the samples of a prompt would all be equal.
 */
export function checkSamplesDiffer({ n, temperature }: SamplingParams): void {
  if (temperature > 0 || n === 1) return;
  throw new InvalidRequestError(
    `n must be 1 with greedy sampling (temperature 0), got ${n}: all samples would be equal`,
    { param: 'n' },
  );
}

/** @throws NotAvailableError for the first field of `table` that `input` sets to something that would matter. */
export function refuseUnavailable(input: object, table: Readonly<Record<string, readonly unknown[]>>): void {
  for (const [field, value] of Object.entries(input)) {
    // A field may have the name of something that every object inherits, such as `constructor`.
    const neutral = Object.hasOwn(table, field) ? table[field] : undefined;
    if (neutral === undefined || value === null || value === undefined) continue;
    if (neutral.includes(value) || isEmpty(value)) continue;
    throw new NotAvailableError(`${field} is not available yet in this version of svc; leave it out`, {
      param: field,
    });
  }
}

/** An empty list or map asks for nothing. */
function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function firstIssue(error: z.ZodError, input: object): InvalidRequestError {
  const issue = error.issues[0];
  const param = String(issue?.path[0] ?? 'sampling_params');
  const value: unknown = Object.entries(input).find(([field]) => field === param)?.[1];
  return new InvalidRequestError(`${param}: ${issue?.message ?? 'invalid'}, got ${preview(value)}`, {
    param,
  });
}
