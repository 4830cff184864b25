// The bytes of a tokenizer's tokens as a trie.

export class Vocabulary {
  readonly endTokenIds: readonly number[];
  /** Tokens, special ones included: bits of a mask. */
  readonly size: number;
  /** Words of 32 bits that a mask has. */
  readonly maskWords: number;

  /** @param tokenBytes by token id; null for tokens that are no text, which no constraint allows. */
  constructor(tokenBytes: readonly (Uint8Array | null)[], endTokenIds: readonly number[]) {
    this.endTokenIds = endTokenIds;
    this.size = tokenBytes.length;
    this.maskWords = Math.ceil(tokenBytes.length / 32);
  }
}
