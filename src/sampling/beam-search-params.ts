// What a caller may ask of beam search, checked once.

import { z } from 'zod';
import { InvalidRequestError } from '../errors.ts';
import { preview } from '../util/preview.ts';

const schema = z.strictObject({
  beam_width: z.int().min(1),
  max_tokens: z.int().min(1),
  ignore_eos: z.boolean().nullish(),
  temperature: z.number().min(0).nullish(),
  length_penalty: z.number().nullish(),
  include_stop_str_in_output: z.boolean().nullish(),
});

export const BEAM_SEARCH_FIELD_NAMES: readonly string[] = Object.keys(schema.shape);

/** Fields of beam search as a caller writes them. */
export type BeamSearchInput = z.input<typeof schema>;

/** Complete. */
export interface BeamSearchParams {
  readonly beam_width: number;
  readonly max_tokens: number;
  readonly ignore_eos: boolean;
  /** Accepted as the protocol has it; candidates are ranked by the model's own log-probabilities. */
  readonly temperature: number;
  /** Scores are divided by the number of tokens to this power. */
  readonly length_penalty: number;
  /** Keep the end token in the tokens that are given back. */
  readonly include_stop_str_in_output: boolean;
}

/** What of the model the checks need; `maxLogprobs` -1 is no limit. */
export interface BeamSearchLimits {
  readonly maxLogprobs: number;
}

/** @throws InvalidRequestError naming the field, the rule and the value. */
export function resolveBeamSearchParams(input: BeamSearchInput, limits: BeamSearchLimits): BeamSearchParams {
  const parsed = schema.safeParse(input);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const param = String(issue?.path[0] ?? 'beam search parameters');
    const value: unknown = Object.entries(input).find(([field]) => field === param)?.[1];
    throw new InvalidRequestError(`${param}: ${issue?.message ?? 'invalid'}, got ${preview(value)}`, {
      param,
    });
  }
  const given = parsed.data;
  if (limits.maxLogprobs !== -1 && 2 * given.beam_width > limits.maxLogprobs) {
    throw new InvalidRequestError(
      `beam_width must be at most half of --max-logprobs (${limits.maxLogprobs}), got ${given.beam_width}`,
      { param: 'beam_width' },
    );
  }
  return {
    beam_width: given.beam_width,
    max_tokens: given.max_tokens,
    ignore_eos: given.ignore_eos ?? false,
    temperature: given.temperature ?? 0,
    length_penalty: given.length_penalty ?? 1,
    include_stop_str_in_output: given.include_stop_str_in_output ?? false,
  };
}
