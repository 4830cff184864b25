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

/** One entry a row of `rows`. */
export function describeLogprobs(rows: Logprobs, tokenizer: Tokenizer | null): PositionLogprobs[] {
  return Array.from(rows.tokenIds, (_, row) => new DescribedRow(rows, row, tokenizer));
}

/** Is described when it is read: the rows of a long prompt are too many to be described at once. */
class DescribedRow implements PositionLogprobs {
  readonly #rows: Logprobs;
  readonly #row: number;
  readonly #tokenizer: Tokenizer | null;

  constructor(rows: Logprobs, row: number, tokenizer: Tokenizer | null) {
    this.#rows = rows;
    this.#row = row;
    this.#tokenizer = tokenizer;
  }

  get tokenId(): number {
    return this.#rows.tokenIds[this.#row]!;
  }

  get logprob(): number {
    return this.#rows.logprobs[this.#row]!;
  }

  get rank(): number {
    return this.#rows.ranks[this.#row]!;
  }

  get token(): TokenDescription | null {
    return this.#tokenizer?.describe(this.tokenId) ?? null;
  }

  get top(): TokenLogprob[] {
    const { numTop, topIds, topLogprobs, topRanks } = this.#rows;
    return Array.from({ length: numTop }, (_, place) => {
      const at = this.#row * numTop + place;
      const [tokenId, logprob, rank] = [topIds[at]!, topLogprobs[at]!, topRanks?.[at] ?? place + 1];
      return { tokenId, logprob, rank, token: this.#tokenizer?.describe(tokenId) ?? null };
    });
  }
}
