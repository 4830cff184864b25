// The offset of each token in the text of an answer. Tokens may end within a character or add no text at all, so their
// own lengths cannot be summed.

import type { DecodeStream, DecodeStreamOptions, Tokenizer } from '../../tokenizer/tokenizer.ts';

export class TextOffsets {
  readonly #tokenizer: Tokenizer | null;
  readonly #decoder: DecodeStream | null;
  #offset: number;

  /** @param start characters (code points) before the first token. */
  constructor(tokenizer: Tokenizer | null, options: DecodeStreamOptions, start: number) {
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer?.decodeStream(options) ?? null;
    this.#offset = start;
  }

  /** Characters before the token, which follows those of the calls before. */
  next(tokenId: number): number {
    const before = this.#offset;
    const added = this.#decoder?.push([tokenId]) ?? '';
    this.#offset += countCharacters(added);
    // Bytes that have turned out to be no character come out in front of the token that has shown it.
    const own = this.#tokenizer?.describe(tokenId).text ?? '';
    return added.endsWith(own) ? this.#offset - countCharacters(own) : before;
  }
}

/** Code points: what most languages call the length of a text. */
export function countCharacters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
