// Where the states of free text in quotes are, so that the lexer can count its characters.

import { afterByte } from '../byte-kinds.ts';
import { PLACES, type QuotedText } from '../grammar.ts';
import { type Dfa, step } from '../regular/dfa.ts';
import { BEGIN } from '../special-tokens.ts';

/** @param dfa any string of JSON: state 1 is behind the quote that opens it, and behind every character. */
export function betweenQuotes(dfa: Dfa | null): QuotedText | null {
  if (dfa === null) return null;
  const places = Uint8Array.from(dfa.labels, (label, state) => {
    if (label >= 0) return PLACES.after;
    if (state === 0) return PLACES.before;
    return state === 1 ? PLACES.between : PLACES.within;
  });
  return { dfa, places, name: 'quotes' };
}

/**
 * Null where the mark is no special token: its first characters could be those of the text.
 * @param dfa any text between two marks.
 */
export function betweenMarks(mark: Uint8Array, dfa: Dfa | null): QuotedText | null {
  if (dfa === null || mark[0] !== BEGIN) return null;
  const places = new Uint8Array(dfa.labels.length).fill(PLACES.before);
  const first = alongMark(dfa, 0, mark).at(-1)!;
  places[first] = PLACES.between;
  const found: [state: number, inCharacter: number][] = [[first, 0]];
  const seen = new Set<string>();
  // A list that grows while it is read.
  for (const [state, inCharacter] of found) {
    for (let byte = 0; byte < BEGIN; byte += 1) {
      const to = step(dfa, state, byte);
      const place = afterByte(inCharacter, byte);
      if (to < 0 || place < 0 || seen.has(`${to}/${place}`)) continue;
      seen.add(`${to}/${place}`);
      places[to] = place === 0 ? PLACES.between : PLACES.within;
      found.push([to, place]);
    }
  }
  for (const state of alongMark(dfa, first, mark)) places[state] = PLACES.after;
  return { dfa, places, name: `marks ${mark.join()}` };
}

/** The states behind each byte of a mark. */
function alongMark(dfa: Dfa, from: number, mark: Uint8Array): readonly number[] {
  let state = from;
  return Array.from(mark, (byte) => {
    state = step(dfa, state, byte);
    return state;
  });
}
