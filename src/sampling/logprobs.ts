// Log-probabilities as they pass from the kernels to the answer: numbers by row, one row a token.

/** Natural log-probabilities of chosen tokens and of the most probable ones, a row each. */
export interface Logprobs {
  /** [rows] The chosen tokens. */
  readonly tokenIds: ArrayLike<number>;
  readonly logprobs: ArrayLike<number>;
  /** 1 is the most probable: one more than there are tokens with a larger logit. */
  readonly ranks: ArrayLike<number>;
  readonly numTop: number;
  /** [rows, numTop] The most probable first, the lower id first among equals. */
  readonly topIds: ArrayLike<number>;
  readonly topLogprobs: ArrayLike<number>;
  /** [rows, numTop] Left out where they are those that come first: 1, 2, ... */
  readonly topRanks?: ArrayLike<number>;
}

/** Rows `start` to `end` in plain arrays: a message with five typed arrays a token costs more than one with five short lists. */
export function sliceRows(all: Logprobs, start: number, end: number): Logprobs {
  const { numTop } = all;
  const slice = (values: ArrayLike<number>, width: number): number[] =>
    Array.from({ length: (end - start) * width }, (_, index) => values[start * width + index]!);
  return {
    tokenIds: slice(all.tokenIds, 1),
    logprobs: slice(all.logprobs, 1),
    ranks: slice(all.ranks, 1),
    numTop,
    topIds: slice(all.topIds, numTop),
    topLogprobs: slice(all.topLogprobs, numTop),
    ...(all.topRanks && { topRanks: slice(all.topRanks, numTop) }),
  };
}
