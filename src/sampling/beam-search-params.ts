// The fields of beam search that a program may set, and the complete parameters of one search.

import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import { zodMessage } from '../util/zod-message.ts';

const schema = z.object({
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

/** The engine's limit on log-probabilities a token; -1 is no limit. */
interface BeamSearchLimits {
  readonly maxLogprobs: number;
}

/** @throws InvalidRequestError naming the field, the rule and the value. */
export function parseBeamSearchFields(input: object): BeamSearchInput {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new InvalidRequestError(zodMessage(parsed.error, input, 'beam search parameters'), {
    param: String(parsed.error.issues[0]!.path[0]),
  });
}

/**
 * Fills in what `given`, whose fields have been checked one by one, leaves out.
 * @throws InvalidRequestError for more beams than the engine may report log-probabilities for.
 */
export function resolveBeamSearchParams(given: BeamSearchInput, limits: BeamSearchLimits): BeamSearchParams {
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
