// Where each token stands in the text of an answer: tokens may end within a character or be no text at all, so that
// lengths of tokens say nothing. The completion format has one a choice.

import type { DecodeStreamOptions, Tokenizer } from '../tokenizer/tokenizer.ts';

export class TextOffsets {
  readonly #decoder: ReturnType<Tokenizer['decodeStream']> | null;
  #offset: number;

  /** @param start characters (code points) before the first token. */
  constructor(tokenizer: Tokenizer | null, options: DecodeStreamOptions, start: number) {
    this.#decoder = tokenizer?.decodeStream(options) ?? null;
    this.#offset = start;
  }

  /** Characters before the token, which follows those of the calls before. */
  next(tokenId: number): number {
    const offset = this.#offset;
    this.#offset += countCharacters(this.#decoder?.push([tokenId]) ?? '');
    return offset;
  }
}

/** Code points: what most languages call the length of a text. */
export function countCharacters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
