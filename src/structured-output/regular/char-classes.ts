// Sets of characters that patterns name by an escape.

import { invertRanges, MAX_CODE_POINT, type Range } from './utf8.ts';

const DIGIT: readonly Range[] = [[0x30, 0x39]];
const WORD: readonly Range[] = [...DIGIT, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
/** WhiteSpace and LineTerminator of ECMA-262. */
const SPACE: readonly Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: readonly Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];

/** By the letter after the backslash. */
export const CLASS_ESCAPES: Readonly<Record<string, readonly Range[]>> = {
  d: DIGIT,
  w: WORD,
  s: SPACE,
  D: invertRanges(DIGIT),
  W: invertRanges(WORD),
  S: invertRanges(SPACE),
};

/** The full stop of a pattern. */
export const NOT_LINE_END = invertRanges(LINE_ENDS);

const propertyRanges = new Map<string, readonly Range[]>();

/**
 * The characters of a Unicode property, as the engine of JavaScript knows them.
 * @param property with its sign, such as `\p{Letter}`.
 */
export function unicodeProperty(property: string): readonly Range[] {
  const known = propertyRanges.get(property);
  if (known !== undefined) return known;
  const runs = new RegExp(`${property}+`, 'gu');
  const ranges: Range[] = [];
  for (let block = 0; block <= MAX_CODE_POINT; block += 0x1000) {
    const points = Array.from({ length: 0x1000 }, (_, i) => block + i).filter(
      (at) => at < 0xd800 || at > 0xdfff,
    );
    for (const [run] of String.fromCodePoint(...points).matchAll(runs)) {
      const inOrder = [...run];
      ranges.push([inOrder[0]!.codePointAt(0)!, inOrder.at(-1)!.codePointAt(0)!]);
    }
  }
  // The properties are some hundred, and the spellings of each are few.
  propertyRanges.set(property, ranges);
  return ranges;
}
