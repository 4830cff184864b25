// What a caller may ask of sampling and stopping, checked once; everything behind it gets `SamplingParams`.

import { z } from 'zod';
import { InvalidRequestError, NotAvailableError } from '../errors.ts';

/** Largest number of samples of one prompt. */
const MAX_N = 16384;

const text = z.string();
const nonEmptyText = text.min(1, 'must not contain empty strings');
const tokenIds = z.array(z.int().nonnegative());

/** The fields of sampling that svc serves, in the protocol's spelling; null and absent mean the default. */
export const samplingFields = {
  n: z.int().min(1).max(MAX_N).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
  stop: z.union([nonEmptyText, z.array(nonEmptyText)]).nullish(),
  stop_token_ids: tokenIds.nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
  ignore_eos: z.boolean().nullish(),
  max_tokens: z.int().min(1).nullish(),
  skip_special_tokens: z.boolean().nullish(),
} as const;

/** Fields that the protocol defines and this version refuses, with the value that means "not used". */
export const unavailableSamplingFields: Readonly<Record<string, readonly unknown[]>> = {
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  logit_bias: [],
  logprobs: [false],
  prompt_logprobs: [],
  min_tokens: [0],
  allowed_token_ids: [],
  bad_words: [],
  logprob_token_ids: [],
  truncate_prompt_tokens: [],
  spaces_between_special_tokens: [true],
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
  readonly skip_special_tokens: boolean;
}

/** Greedy below this temperature: the division would only turn rounding into noise. */
const GREEDY_BELOW = 1e-5;

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
  const temperature = given.temperature ?? defaults.temperature ?? 1;
  const greedy = temperature < GREEDY_BELOW;
  const n = given.n ?? 1;
  if (greedy && n > 1) {
    throw new InvalidRequestError(
      `n must be 1 with greedy sampling (temperature 0), got ${n}: all samples would be equal`,
      { param: 'n' },
    );
  }
  return {
    n,
    temperature: greedy ? 0 : temperature,
    top_p: greedy ? 1 : (given.top_p ?? defaults.top_p ?? 1),
    top_k: greedy ? 0 : Math.max(0, given.top_k ?? defaults.top_k ?? 0),
    min_p: greedy ? 0 : (given.min_p ?? defaults.min_p ?? 0),
    seed: given.seed === -1 ? null : (given.seed ?? null),
    stop: typeof given.stop === 'string' ? [given.stop] : (given.stop ?? []),
    stop_token_ids: given.stop_token_ids ?? [],
    include_stop_str_in_output: given.include_stop_str_in_output ?? false,
    ignore_eos: given.ignore_eos ?? false,
    max_tokens: given.max_tokens ?? defaults.max_tokens ?? null,
    skip_special_tokens: given.skip_special_tokens ?? true,
  };
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
  return new InvalidRequestError(`${param}: ${issue?.message ?? 'invalid'}, got ${JSON.stringify(value)}`, {
    param,
  });
}
