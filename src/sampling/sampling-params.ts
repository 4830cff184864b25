// The complete sampling parameters of one request: the caller's fields, with every default filled in.

import { InvalidRequestError } from '../errors.ts';
import type { SamplingFields } from './sampling-fields.ts';
import { type RequestConstraint, structuredOutputsConstraint } from './structured-outputs.ts';

/** Defaults of a model or a server: a field left out by the caller takes its value from here. */
export interface SamplingDefaults {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly max_tokens?: number;
}

/** Which repetitions end an answer: sizes of patterns in tokens, and how often one must be there. */
export interface RepetitionDetection {
  readonly min_pattern_size: number;
  readonly max_pattern_size: number;
  readonly min_count: number;
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
  /** What the answer must be; null lets it be anything. */
  readonly constraint: RequestConstraint | null;
  /** Most probable tokens to report beside each sampled one, -1 for all; null reports nothing. */
  readonly logprobs: number | null;
  /** The same for the tokens of the prompt. */
  readonly prompt_logprobs: number | null;
  /** Keep this many tokens at the end of the prompt; -1 as many as leave room for the answer. */
  readonly truncate_prompt_tokens: number | null;
  /** `right` keeps them at its beginning. */
  readonly truncation_side: 'left' | 'right';
  /** Tokens whose log-probabilities are reported beside each sampled one, in the place of the most probable; null: these. */
  readonly logprob_token_ids: readonly number[] | null;
  /** Ends an answer that goes in circles; null lets it. */
  readonly repetition_detection: RepetitionDetection | null;
  /** False makes no text. */
  readonly detokenize: boolean;
  readonly skip_special_tokens: boolean;
  readonly spaces_between_special_tokens: boolean;
}

/** Greedy below this temperature: the division would only turn rounding into noise. */
const GREEDY_BELOW = 1e-5;
/** Of what logits are divided by: above, the numbers of a device would become 0 or infinite, and forbidden tokens numbers. */
const MAX_DIVISOR = 1e30;
/** A device counts tokens in 32 bits, and no vocabulary has as many: more is all of them, too. */
const MAX_TOP_K = 2 ** 31 - 1;
/** Biases beyond this are cut to it. */
const MAX_BIAS = 100;

/**
 * Fills in what `given`, whose fields have been checked one by one, leaves out.
 * @throws InvalidRequestError for fields that contradict each other.
 */
export function resolveSamplingParams(
  given: SamplingFields,
  defaults: SamplingDefaults = {},
): SamplingParams {
  const params = {
    ...drawing(given, defaults),
    ...logitRules(given, defaults),
    ...ending(given, defaults),
    ...output(given),
  };
  checkTogether(params);
  return params;
}

function drawing(given: SamplingFields, defaults: SamplingDefaults) {
  const temperature = given.temperature ?? defaults.temperature ?? 1;
  const greedy = temperature < GREEDY_BELOW;
  return {
    n: given.n ?? 1,
    temperature: greedy ? 0 : Math.min(temperature, MAX_DIVISOR),
    top_p: greedy ? 1 : (given.top_p ?? defaults.top_p ?? 1),
    top_k: greedy ? 0 : Math.max(0, Math.min(MAX_TOP_K, given.top_k ?? defaults.top_k ?? 0)),
    min_p: greedy ? 0 : (given.min_p ?? defaults.min_p ?? 0),
    seed: given.seed === -1 ? null : (given.seed ?? null),
  };
}

function logitRules(given: SamplingFields, defaults: SamplingDefaults) {
  const biases = Object.entries(given.logit_bias ?? {}).map(([id, bias]): [string, number] => [
    id,
    Math.max(-MAX_BIAS, Math.min(MAX_BIAS, bias)),
  ]);
  const repetition = given.repetition_penalty ?? defaults.repetition_penalty ?? 1;
  return {
    presence_penalty: given.presence_penalty ?? 0,
    frequency_penalty: given.frequency_penalty ?? 0,
    repetition_penalty: Math.max(1 / MAX_DIVISOR, Math.min(MAX_DIVISOR, repetition)),
    logit_bias: Object.fromEntries(biases),
    allowed_token_ids: given.allowed_token_ids ?? null,
    bad_words: given.bad_words ?? [],
    constraint: constraintOf(given),
  };
}

function constraintOf({ structured_outputs }: SamplingFields): RequestConstraint | null {
  if (structured_outputs == null) return null;
  return { constraint: structuredOutputsConstraint(structured_outputs), field: 'structured_outputs' };
}

function ending(given: SamplingFields, defaults: SamplingDefaults) {
  return {
    stop: typeof given.stop === 'string' ? [given.stop] : (given.stop ?? []),
    stop_token_ids: given.stop_token_ids ?? [],
    include_stop_str_in_output: given.include_stop_str_in_output ?? false,
    ignore_eos: given.ignore_eos ?? false,
    min_tokens: given.min_tokens ?? 0,
    max_tokens: given.max_tokens ?? defaults.max_tokens ?? null,
    repetition_detection: repetitionDetection(given),
  };
}

/** A longest pattern of 0 tokens asks for nothing. */
function repetitionDetection({ repetition_detection: given }: SamplingFields): RepetitionDetection | null {
  if (!given || given.max_pattern_size === 0) return null;
  const { max_pattern_size, min_count } = given;
  const min_pattern_size = given.min_pattern_size || 1;
  if (min_pattern_size <= max_pattern_size) return { min_pattern_size, max_pattern_size, min_count };
  throw new InvalidRequestError(
    `repetition_detection.min_pattern_size must be at most max_pattern_size (${max_pattern_size}), got ${min_pattern_size}`,
    { param: 'repetition_detection' },
  );
}

function output(given: SamplingFields) {
  return {
    logprobs: typeof given.logprobs === 'boolean' ? (given.logprobs ? 1 : null) : (given.logprobs ?? null),
    prompt_logprobs: given.prompt_logprobs ?? null,
    truncate_prompt_tokens: given.truncate_prompt_tokens ?? null,
    truncation_side: given.truncation_side ?? 'left',
    logprob_token_ids: given.logprob_token_ids?.length ? given.logprob_token_ids : null,
    detokenize: given.detokenize ?? true,
    skip_special_tokens: given.skip_special_tokens ?? true,
    spaces_between_special_tokens: given.spaces_between_special_tokens ?? true,
  };
}

/** Fields that are right alone and wrong together. */
function checkTogether(params: SamplingParams): void {
  const { min_tokens, max_tokens, stop, detokenize, logprobs, logprob_token_ids } = params;
  if (logprob_token_ids !== null && logprobs === null) {
    throw new InvalidRequestError('logprob_token_ids needs logprobs, which is not asked for', {
      param: 'logprob_token_ids',
    });
  }
  if (max_tokens !== null && min_tokens > max_tokens) {
    throw new InvalidRequestError(
      `min_tokens must be at most ${max_tokens}, the most tokens that the answer may have, got ${min_tokens}`,
      { param: 'min_tokens' },
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
