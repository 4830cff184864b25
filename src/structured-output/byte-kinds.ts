// Kinds of text, a bit each, coarse enough that 32 of them tell most states of lexemes apart: where a state stays the same
// over all kinds that are below a node of the trie, all tokens there stay in it too, and none of them need be looked at.

import { Budget, DEFAULT_LIMITS } from './limits.ts';
import type { Dfa } from './regular/dfa.ts';
import { ANY_CHAR, toDfa } from './regular/regular.ts';

/** All other ASCII bytes are one more kind. */
const KINDS = [
  'ghijklmnopqrstuvwxyz',
  'GHIJKLMNOPQRSTUVWXYZ',
  'abcdef',
  'ABCDEF',
  '0123456789',
  ...' \n\t\r"\\,:{}[].-_/<>()=\'',
];
const OTHER_KIND = 1 << KINDS.length;
/** A whole character outside ASCII. */
const CHARACTER = 1 << 30;
/** Bytes that are no whole characters. */
export const BROKEN = 1 << 31;

const KIND_OF_BYTE = Uint32Array.from({ length: 0x80 }, (_, byte) => {
  const kind = KINDS.findIndex((chars) => chars.includes(String.fromCharCode(byte)));
  return kind < 0 ? OTHER_KIND : 1 << kind;
});

const ONE_CHARACTER = toDfa(ANY_CHAR, new Budget(DEFAULT_LIMITS))!;

/** Where bytes are in a character: 0 between two; negative where they are none. */
export function afterByte(place: number, byte: number): number {
  const { next, numClasses, classes, labels } = ONE_CHARACTER;
  const to = place < 0 ? -1 : next[place * numClasses + classes[byte]!]!;
  return to >= 0 && labels[to]! >= 0 ? 0 : to;
}

/**
 * The kind that a byte makes what is above it.
 * @param place after the byte
 * @param isEnd a token ends here
 */
export function kindOf(byte: number, place: number, isEnd: boolean): number {
  if (place === 0) return byte < 0x80 ? KIND_OF_BYTE[byte]! : CHARACTER;
  return isEnd || place < 0 ? BROKEN : 0;
}

/** The kinds over which an automaton stays in a state. */
export function kindsKeeping(dfa: Dfa, state: number): number {
  let kinds = staysOverCharacters(dfa, state) ? CHARACTER : 0;
  for (const kind of KIND_OF_BYTE) kinds |= kind;
  for (let byte = 0; byte < 0x80; byte += 1)
    if (dfa.next[state * dfa.numClasses + dfa.classes[byte]!] !== state) kinds &= ~KIND_OF_BYTE[byte]!;
  return kinds;
}

/** Every character outside ASCII leads from the state back to it. */
function staysOverCharacters(dfa: Dfa, state: number): boolean {
  const pairs: [place: number, state: number][] = [[0, state]];
  const seen = new Set<number>();
  // A list that grows while it is read.
  for (const [place, at] of pairs) {
    for (let byte = 0x80; byte < 0x100; byte += 1) {
      const nextPlace = afterByte(place, byte);
      if (nextPlace < 0) continue;
      const next = dfa.next[at * dfa.numClasses + dfa.classes[byte]!]!;
      if (next < 0 || (nextPlace === 0 && next !== state)) return false;
      const key = nextPlace * dfa.labels.length + next;
      if (nextPlace === 0 || seen.has(key)) continue;
      seen.add(key);
      pairs.push([nextPlace, next]);
    }
  }
  return true;
}
