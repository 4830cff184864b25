// best_of: more samples than the answer has choices, of which the most probable are kept.

import { type CompletedSample, collectSamples } from '../engine/completed-sample.ts';
import type { InferenceEngine, OutputDelta, PreparedRequest } from '../engine/inference-engine.ts';
import type { GenerationRun } from './parsed-request.ts';

/** The `n` of `bestOf` samples whose tokens were most probable on average, the best first, each in one delta. */
export async function* bestSamples(
  engine: InferenceEngine,
  request: PreparedRequest,
  bestOf: number,
  run: GenerationRun,
): AsyncGenerator<OutputDelta, void, undefined> {
  const { params, sampling } = request;
  const scored = {
    ...request,
    params: { ...params, n: bestOf },
    sampling: { ...sampling, numLogprobs: sampling.numLogprobs ?? 0 },
  };
  const samples = await collectSamples(engine.generate(scored, run.signal, run.ticket));
  // What the prompt found in the cache: to the others it is there since the first.
  const { promptLogprobs, numCachedTokens } = samples[0]!;
  const best = samples.toSorted((a, b) => meanLogprob(b) - meanLogprob(a)).slice(0, params.n);
  for (const [index, sample] of best.entries()) {
    const logprobs = params.logprobs === null ? null : sample.logprobs;
    yield { ...sample, index, promptLogprobs, numCachedTokens, logprobs };
  }
}

function meanLogprob({ logprobs }: CompletedSample): number {
  const positions = logprobs ?? [];
  return positions.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, positions.length);
}
