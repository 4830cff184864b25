// Log-probabilities of one token out of those of many. Sampling and the scoring of known tokens use it.

import type { Logprobs } from '../ops/ops.ts';

/** Plain arrays: a message with five typed arrays a token costs more than one with five short lists. */
export function oneRow(all: Logprobs, row: number): Logprobs {
  const { numTop } = all;
  const places = Array.from({ length: numTop }, (_, place) => row * numTop + place);
  return {
    tokenIds: [all.tokenIds[row]!],
    logprobs: [all.logprobs[row]!],
    ranks: [all.ranks[row]!],
    numTop,
    topIds: places.map((place) => all.topIds[place]!),
    topLogprobs: places.map((place) => all.topLogprobs[place]!),
  };
}
