// One text or two as one sequence, with the special tokens around and between them, and cut to a length where that is wanted.

import type { NativeEncoding } from './native-tokenizer.ts';

/** The tokens of one text, or of two. */
export interface JoinedTexts {
  readonly ids: Int32Array;
  /** Index of the first token of the kind that the second text's are; null where the tokenizer tells no kinds apart. */
  readonly secondTextStart: number | null;
}

/**
 * The special tokens stay, of the texts the end is cut: of two the longer one, until they are alike.
 * @returns null where not even the special tokens and one of each text have room.
 */
export function joinTexts(encoding: NativeEncoding, maxTokens: number): JoinedTexts | null {
  const [ids, types] = [encoding.getIds(), encoding.getTypeIds()];
  const kept = keptIndices(encoding.getSequenceIds(), maxTokens);
  if (kept === null) return null;
  const second = kept.findIndex((index) => types[index] === 1);
  return { ids: Int32Array.from(kept, (index) => ids[index]!), secondTextStart: second < 0 ? null : second };
}

/** @param texts which of the texts each token belongs to, 0 or 1; none is a special one. */
function keptIndices(texts: readonly (number | null | undefined)[], maxTokens: number): number[] | null {
  const lengths = [0, 1].map((text) => texts.filter((one) => one === text).length) as [number, number];
  const room = maxTokens - (texts.length - lengths[0] - lengths[1]);
  if (room < lengths.filter((length) => length > 0).length) return null;
  const left = shares(lengths, room);
  return [...texts.keys()].filter((index) => {
    const text = texts[index];
    if (text !== 0 && text !== 1) return true;
    left[text] -= 1;
    return left[text] >= 0;
  });
}

/** How many tokens of each text are kept. */
function shares([first, second]: readonly [number, number], room: number): [number, number] {
  const isSecondLonger = second >= first;
  const [short, long] = isSecondLonger ? [first, second] : [second, first];
  const ofShort = Math.min(short, Math.max(Math.floor(room / 2), room - long));
  const ofLong = Math.min(long, room - ofShort);
  return isSecondLonger ? [ofShort, ofLong] : [ofLong, ofShort];
}
