// JSON texts as regular expressions: what is between values, strings, and the keys of objects.

import type { Budget } from '../limits.ts';
import { type Dfa, DfaBuilder } from '../regular/dfa.ts';
import { chars, choice, oneOf, type Regular, repeat, sequence, text } from '../regular/regular.ts';

/** Spaces or tabs at the beginning of a line: ten levels of two. */
const MAX_INDENT = 20;

/**
 * Between two tokens, where a text may be laid out as writers of JSON do: a space, or a new line that is indented. Small models go
 * on with whitespace for as long as they may.
 */
export function whitespace(isCompact: boolean): Regular {
  if (isCompact) return text('');
  const newLine = sequence(repeat(text('\r'), 0, 1), text('\n'), repeat(oneOf(' \t'), 0, MAX_INDENT));
  return choice(text(''), text(' '), newLine);
}

const HEX = oneOf('0123456789abcdefABCDEF');
const UNESCAPED = chars([0x20, 0x21], [0x23, 0x5b], [0x5d, 0x10ffff]);
const NOT_SURROGATE = choice(
  sequence(oneOf('0123456789abcefABCEF'), HEX, HEX, HEX),
  sequence(oneOf('dD'), oneOf('01234567'), HEX, HEX),
);
const PAIR = sequence(
  oneOf('dD'),
  oneOf('89abAB'),
  HEX,
  HEX,
  text('\\u'),
  oneOf('dD'),
  oneOf('cdefCDEF'),
  HEX,
  HEX,
);

/** A character of a string, written in any way that JSON has; a half of a surrogate pair is no character. */
const CHARACTER = choice(
  UNESCAPED,
  sequence(text('\\'), choice(oneOf('"\\/bfnrt'), sequence(text('u'), choice(NOT_SURROGATE, PAIR)))),
);

export const ANY_STRING = sequence(text('"'), repeat(CHARACTER, 0, null), text('"'));

/** What JSON.stringify writes for the bytes that a string must not contain as they are. */
const ESCAPES: ReadonlyMap<number, string> = new Map(
  [...Array.from({ length: 0x20 }, (_, byte) => byte), 0x22, 0x5c].map((byte) => [
    byte,
    JSON.stringify(String.fromCharCode(byte)).slice(1, -1),
  ]),
);

/** The texts of an automaton as JSON strings, each written as JSON.stringify does. Labels are kept. */
export function quoted(dfa: Dfa, budget: Budget): Dfa {
  const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  const builder = new DfaBuilder(bytes, 256, budget);
  const begin = builder.add(-1);
  const states = Array.from(dfa.labels, () => builder.add(-1));
  builder.row(begin)[0x22] = states[0]!;
  const ends = new Map<number, number>();
  for (const [state, label] of dfa.labels.entries()) {
    const row = builder.row(states[state]!);
    if (label >= 0) {
      const end = ends.get(label) ?? builder.add(label);
      ends.set(label, end);
      row[0x22] = end;
    }
    for (let byte = 0; byte < 256; byte += 1) {
      const next = dfa.next[state * dfa.numClasses + dfa.classes[byte]!]!;
      if (next >= 0) addPath(builder, states[state]!, ESCAPES.get(byte), byte, states[next]!);
    }
  }
  return builder.build()!;
}

function addPath(
  builder: DfaBuilder,
  from: number,
  written: string | undefined,
  byte: number,
  to: number,
): void {
  const path = written === undefined ? [byte] : [...Buffer.from(written)];
  let state = from;
  for (const step of path.slice(0, -1)) {
    const row = builder.row(state);
    if (row[step]! < 0) row[step] = builder.add(-1);
    state = row[step]!;
  }
  builder.row(state)[path.at(-1)!] = to;
}
