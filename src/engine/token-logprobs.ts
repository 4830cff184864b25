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
    // Made anew when it is read: those of a long prompt are too many to be made at once.
    get top() {
      return Array.from({ length: numTop }, (_, place) => {
        const id = logprobs.topIds[row * numTop + place]!;
        const logprob = logprobs.topLogprobs[row * numTop + place]!;
        return { tokenId: id, logprob, rank: place + 1, token: describe(id) };
      });
    },
  }));
}
