// Log-probabilities of tokens together with the tokens' texts.

import type { Logprobs } from '../sampling/logprobs.ts';
import type { TokenDescription, Tokenizer } from '../tokenizer/tokenizer.ts';

export interface TokenLogprob {
  readonly tokenId: number;
  /** Natural logarithm. */
  readonly logprob: number;
  /** 1 is the most probable. */
  readonly rank: number;
  /** Null without a tokenizer. */
  readonly token: TokenDescription | null;
}

/** The token at one position, and those that were most probable there. */
export interface PositionLogprobs extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

/** One entry a row of `logprobs`. */
export function describeLogprobs(logprobs: Logprobs, tokenizer: Tokenizer | null): PositionLogprobs[] {
  const { numTop } = logprobs;
  const describe = (id: number): TokenDescription | null => tokenizer?.describe(id) ?? null;
  return Array.from(logprobs.tokenIds, (tokenId, row) => ({
    tokenId,
    logprob: logprobs.logprobs[row]!,
    rank: logprobs.ranks[row]!,
    token: describe(tokenId),
    top: Array.from({ length: numTop }, (_, index) => {
      const id = logprobs.topIds[row * numTop + index]!;
      const logprob = logprobs.topLogprobs[row * numTop + index]!;
      return { tokenId: id, logprob, rank: index + 1, token: describe(id) };
    }),
  }));
}
