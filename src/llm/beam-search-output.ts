// The results of `LLM.beamSearch`.

import type { Beam } from '../engine/beam-search.ts';
import type { InferenceEngine } from '../engine/inference-engine.ts';
import { type TokenLogprobs, toTokenLogprobs } from './request-output.ts';

export interface BeamSearchSequence {
  /** The prompt, then the tokens that were found, with the end token where one ended the sequence. */
  readonly tokens: readonly number[];
  /** One entry a found token. */
  readonly logprobs: readonly TokenLogprobs[];
  /** Of all tokens, the prompt's included; empty without a tokenizer. */
  readonly text: string;
  readonly cum_logprob: number;
  readonly finish_reason: 'stop' | 'length';
  /** Always null: only end tokens stop a beam. */
  readonly stop_reason: null;
}

export interface BeamSearchOutput {
  /** The best first. */
  readonly sequences: readonly BeamSearchSequence[];
}

export function describeBeams(
  engine: InferenceEngine,
  beams: readonly Beam[],
): Promise<BeamSearchSequence[]> {
  const describe = async (beam: Beam): Promise<BeamSearchSequence> => ({
    tokens: beam.tokenIds,
    logprobs: beam.logprobs.map(toTokenLogprobs),
    text: (await engine.tokenizer?.decode(beam.tokenIds, { skipSpecialTokens: true })) ?? '',
    cum_logprob: beam.cumulativeLogprob,
    finish_reason: beam.finishReason,
    stop_reason: null,
  });
  return Promise.all(beams.map(describe));
}
