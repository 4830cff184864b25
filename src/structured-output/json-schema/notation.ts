// How strings and keys are written: as JSON has them, or between marks and with nothing escaped. All else of a value is JSON.

import type { QuotedText } from '../grammar.ts';
import type { GrammarBuilder } from '../grammar-builder.ts';
import type { Budget } from '../limits.ts';
import { type Dfa, intersect, subtract, wordsOf } from '../regular/dfa.ts';
import { parseWholePattern } from '../regular/regex.ts';
import { ANY_CHAR, bytes, type Regular, repeat, sequence, text, toDfa } from '../regular/regular.ts';
import { ANY_STRING, quoted } from './json-text.ts';
import { keptDfa } from './kept-dfas.ts';
import { betweenMarks, betweenQuotes } from './quoted-text.ts';

export interface Notation {
  /** Tells its strings and keys from those of others, where automata are kept. */
  readonly name: string;
  readonly anyString: Regular;
  /** The same where characters can be counted in it; else null. */
  counted(): QuotedText | null;
  /** The texts of an automaton as strings. */
  string(dfa: Dfa): Dfa | null;
  /** A key that a schema names. */
  key(name: string): Uint8Array;
  /** What other keys may be, before they are written. */
  readonly otherKey: Dfa | null;
  /** The texts of an automaton as such keys. Labels are kept. */
  otherKeys(dfa: Dfa): Dfa | null;
}

const ANYTHING = repeat(ANY_CHAR, 0, null);

export function jsonNotation(budget: Budget): Notation {
  return {
    name: '',
    anyString: ANY_STRING,
    counted: () => betweenQuotes(keptDfa('string', () => toDfa(ANY_STRING, budget))),
    string: (dfa) => quoted(dfa, budget),
    key: (name) => Buffer.from(JSON.stringify(name)),
    otherKey: toDfa(ANYTHING, budget),
    otherKeys: (dfa) => quoted(dfa, budget),
  };
}

/** A key that needs no mark: nothing in it stands between values, and there is no space around it. */
const BARE = '[^\\s:=,(){}[\\]<"](?:[^\\r\\n:=,(){}[\\]<"]*[^\\s:=,(){}[\\]<"])?';
const IS_BARE = new RegExp(`^(?:${BARE})$`, 'u');

/** @param quote a mark. */
export function markedNotation(quote: string, { budget, marks }: GrammarBuilder): Notation {
  const [mark = new Uint8Array()] = wordsOf(toDfa(marks.regular(quote), budget), 1) ?? [];
  const one = bytes(...Array.from(mark, (byte) => [byte, byte] as const));
  // Readers of the text see no difference between a special token and its characters.
  const holdsQuote = toDfa(sequence(ANYTHING, text(quote), ANYTHING), budget);
  const free = subtract(toDfa(ANYTHING, budget), holdsQuote, budget);
  const between = (dfa: Dfa | null): Regular => sequence(one, { kind: 'dfa', dfa }, one);
  const name = `${mark.join()} `;
  return {
    name,
    anyString: between(free),
    counted: () =>
      betweenMarks(
        mark,
        keptDfa(`${name}string`, () => toDfa(between(free), budget)),
      ),
    string: (dfa) => toDfa(between(intersect(dfa, free, budget)), budget),
    key(name) {
      if (IS_BARE.test(name)) return Buffer.from(name);
      if (name.includes(quote))
        budget.refuse(`names the key ${JSON.stringify(name)}, which cannot be written: rename it`);
      return Buffer.concat([mark, Buffer.from(name), mark]);
    },
    otherKey: toDfa(parseWholePattern(BARE, budget), budget),
    otherKeys: (dfa) => dfa,
  };
}
