// Special tokens in the texts of constraints. They are no text, so automata see each of them as bytes that no text has: 0xFF,
// which UTF-8 never uses, then its id. A vocabulary spells its special tokens like this, and marks ask for them so.

import { ANY_CHAR, bytes, choice, type Regular, sequence, text } from './regular/regular.ts';

/** Ids by text. */
export type SpecialTokens = ReadonlyMap<string, number>;

/** No byte of a text. */
export const BEGIN = 0xff;

/** A character, or any special token. */
export const ANY_SYMBOL: Regular = choice(ANY_CHAR, bytes([BEGIN, BEGIN], [0, 0xff], [0, 0xff], [0, 0xff]));

export function symbolOf(id: number): Uint8Array {
  return Uint8Array.of(BEGIN, id >>> 16, id >>> 8, id);
}

/** Reads texts in which special tokens are written as their texts. */
export class Marks {
  readonly #specialTokens: SpecialTokens;
  readonly #firstChars: ReadonlySet<string>;
  /** Of their texts, the longest first. */
  readonly #lengths: readonly number[];

  constructor(specialTokens: SpecialTokens) {
    const texts = [...specialTokens.keys()];
    this.#specialTokens = specialTokens;
    this.#firstChars = new Set(texts.map((one) => one.charAt(0)));
    this.#lengths = [...new Set(texts.map(({ length }) => length))].toSorted((a, b) => b - a);
  }

  /** These characters, in which the text of a special token stands for that token alone. */
  regular(value: string): Regular {
    const parts: Regular[] = [];
    let plainFrom = 0;
    for (const { id, at, end } of this.#tokensIn(value)) {
      parts.push(text(value.slice(plainFrom, at)), exactly(id));
      plainFrom = end;
    }
    return sequence(...parts, text(value.slice(plainFrom)));
  }

  /** The beginning of a mark, so long that it cuts through no special token. */
  beginning(value: string, length: number): string {
    const cut = this.#tokensIn(value).find(({ at, end }) => at < length && end > length);
    return value.slice(0, cut?.end ?? length);
  }

  /** Any special token whose text has these characters. */
  tokensWith(characters: string): Regular {
    return choice(
      ...[...this.#specialTokens].flatMap(([one, id]) => (one.includes(characters) ? [exactly(id)] : [])),
    );
  }

  #tokensIn(value: string): TokenPlace[] {
    const found: TokenPlace[] = [];
    for (let at = 0; at < value.length; at += 1) {
      const place = this.#firstChars.has(value.charAt(at)) ? this.#tokenAt(value, at) : null;
      if (place === null) continue;
      found.push(place);
      at = place.end - 1;
    }
    return found;
  }

  #tokenAt(value: string, at: number): TokenPlace | null {
    for (const length of this.#lengths) {
      const id = this.#specialTokens.get(value.slice(at, at + length));
      if (id !== undefined) return { id, at, end: at + length };
    }
    return null;
  }
}

/** Where a special token is in a text. */
interface TokenPlace {
  readonly id: number;
  readonly at: number;
  readonly end: number;
}

function exactly(id: number): Regular {
  return bytes(...Array.from(symbolOf(id), (byte) => [byte, byte] as const));
}
