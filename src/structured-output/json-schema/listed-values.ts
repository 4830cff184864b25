// The values of a set that is small and closed, as those of enum, const and booleans are.

import { wordsOf } from '../regular/dfa.ts';
import type { NumberSet, StringSet, Values } from './values.ts';

type Listed = string | number | boolean | null;

const LITERALS = { null: null, true: true, false: false } as const;

/** Null where there are more than `max`, or others than texts, single numbers, booleans and null. */
export function listedValues(
  { literals, numbers, strings, arrays, objects }: Values,
  max: number,
): readonly Listed[] | null {
  if (arrays.length + objects.length > 0) return null;
  const parts = [
    literals.map((literal) => LITERALS[literal]),
    ...numbers.map(singleNumber),
    ...strings.map((set) => texts(set, max)),
  ];
  const all: Listed[] = [];
  for (const part of parts) {
    if (part === null) return null;
    all.push(...part);
  }
  return all.length > max ? null : all;
}

function singleNumber({ min, max }: NumberSet): readonly number[] | null {
  return min === max ? [min] : null;
}

function texts({ dfa }: StringSet, max: number): readonly string[] | null {
  return dfa === null ? null : (wordsOf(dfa, max)?.map((word) => Buffer.from(word).toString()) ?? null);
}
