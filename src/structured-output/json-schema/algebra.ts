// Intersection and union of sets of JSON values, shape by shape.

import type { Budget } from '../limits.ts';
import { type Dfa, intersect as intersectDfas } from '../regular/dfa.ts';
import { ANY_CHAR, repeat, toDfa } from '../regular/regular.ts';
import {
  ANY_ARRAY,
  ANY_NUMBERS,
  ANY_OBJECT,
  ANY_STRINGS,
  type ArrayShape,
  type NumberSet,
  type ObjectShape,
  type StringSet,
  type Values,
} from './values.ts';

export function union(all: readonly Values[], budget: Budget): Values {
  const united = {
    literals: [...new Set(all.flatMap(({ literals }) => literals))],
    numbers: distinct(
      all.flatMap(({ numbers }) => numbers),
      ANY_NUMBERS,
    ),
    strings: distinctStrings(all.flatMap(({ strings }) => strings)),
    arrays: distinct(
      all.flatMap(({ arrays }) => arrays),
      ANY_ARRAY,
    ),
    objects: distinct(
      all.flatMap(({ objects }) => objects),
      ANY_OBJECT,
    ),
  };
  return bounded(united, budget);
}

export function intersection(a: Values, b: Values, budget: Budget): Values {
  const values = {
    literals: a.literals.filter((literal) => b.literals.includes(literal)),
    numbers: distinct(pairs(a.numbers, b.numbers, intersectNumbers), ANY_NUMBERS),
    strings: distinctStrings(pairs(a.strings, b.strings, (x, y) => intersectStrings(x, y, budget))),
    arrays: distinct(pairs(a.arrays, b.arrays, intersectArrays), ANY_ARRAY),
    objects: distinct(pairs(a.objects, b.objects, intersectObjects), ANY_OBJECT),
  };
  return bounded(values, budget);
}

function bounded(values: Values, budget: Budget): Values {
  const { maxAlternatives } = budget.limits;
  const most = Math.max(
    values.objects.length,
    values.arrays.length,
    values.numbers.length,
    values.strings.length,
  );
  budget.spend(100 * most);
  if (most > maxAlternatives)
    budget.refuse(`combines more than ${maxAlternatives} alternatives; make it simpler`);
  return values;
}

function pairs<Shape>(
  a: readonly Shape[],
  b: readonly Shape[],
  meet: (x: Shape, y: Shape) => Shape | null,
): Shape[] {
  return a.flatMap((x) => b.flatMap((y) => meet(x, y) ?? []));
}

/** Each shape once; none beside the one that all of its kind are in. */
function distinct<Shape extends object>(shapes: readonly Shape[], any: Shape): Shape[] {
  if (shapes.length < 2) return [...shapes];
  const byKey = new Map(shapes.map((shape) => [keyOf(shape), shape]));
  const whole = byKey.get(keyOf(any));
  if (whole === undefined) return [...byKey.values()];
  // Shapes that say what was evaluated are not in one that does not.
  return [...byKey.values()].filter(
    (shape) => shape === whole || keyOf(evaluatedOf(shape)) !== keyOf(evaluatedOf(any)),
  );
}

function evaluatedOf(shape: object): unknown {
  if ('evaluated' in shape) return shape.evaluated;
  return 'evaluatedPrefix' in shape && 'evaluatedItems' in shape
    ? [shape.evaluatedPrefix, shape.evaluatedItems]
    : null;
}

function keyOf(shape: unknown): string {
  return JSON.stringify(shape, (_, value: unknown) => {
    if (value instanceof Map) return [...value];
    return value === Infinity || value === -Infinity ? String(value) : value;
  });
}

function distinctStrings(sets: readonly StringSet[]): StringSet[] {
  const free = distinct(
    sets.filter(({ dfa }) => dfa === null),
    ANY_STRINGS,
  );
  if (free.some(({ min, max }) => min === 0 && max === null)) return [ANY_STRINGS];
  const seen = new Set<Dfa>();
  const fixed = sets.filter(({ dfa }) => {
    if (dfa === null || seen.has(dfa)) return false;
    seen.add(dfa);
    return true;
  });
  return [...free, ...fixed];
}

export function intersectNumbers(a: NumberSet, b: NumberSet): NumberSet | null {
  if (a.shape !== 'any' && b.shape !== 'any' && a.shape !== b.shape) return null;
  const met: NumberSet = {
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
    shape: a.shape === 'any' ? b.shape : a.shape,
    multiples: [...new Set([...a.multiples, ...b.multiples])],
    nonMultiples: [...new Set([...a.nonMultiples, ...b.nonMultiples])],
  };
  if (met.min > met.max) return null;
  if (met.shape === 'integer' && Math.ceil(met.min) > Math.floor(met.max)) return null;
  if (met.shape === 'fraction' && met.min === met.max && Number.isInteger(met.min)) return null;
  return met;
}

function intersectStrings(a: StringSet, b: StringSet, budget: Budget): StringSet | null {
  const min = Math.max(a.min, b.min);
  const max = a.max === null || b.max === null ? (a.max ?? b.max) : Math.min(a.max, b.max);
  if (max !== null && min > max) return null;
  if (a.dfa === null && b.dfa === null) return { dfa: null, min, max };
  if (a.dfa !== null && b.dfa !== null) return fixed(intersectDfas(a.dfa, b.dfa, budget));
  const free = a.dfa === null ? a : b;
  const dfa = a.dfa ?? b.dfa;
  if (free.min === 0 && free.max === null) return fixed(dfa);
  return fixed(intersectDfas(dfa, lengthDfa(free, budget), budget));
}

function fixed(dfa: Dfa | null): StringSet | null {
  return dfa === null ? null : { dfa, min: 0, max: null };
}

export function lengthDfa({ min, max }: StringSet, budget: Budget): Dfa | null {
  return toDfa(repeat(ANY_CHAR, min, max), budget);
}

function intersectArrays(a: ArrayShape, b: ArrayShape): ArrayShape | null {
  const max = a.max === null || b.max === null ? (a.max ?? b.max) : Math.min(a.max, b.max);
  const min = Math.max(a.min, b.min);
  if (max !== null && min > max) return null;
  return {
    tables: merged(a.tables, b.tables),
    contains: merged(a.contains, b.contains),
    min,
    max,
    isUnique: a.isUnique || b.isUnique,
    evaluatedPrefix: Math.max(a.evaluatedPrefix, b.evaluatedPrefix),
    evaluatedItems: merged(a.evaluatedItems, b.evaluatedItems),
  };
}

function intersectObjects(a: ObjectShape, b: ObjectShape): ObjectShape | null {
  const max = a.max === null || b.max === null ? (a.max ?? b.max) : Math.min(a.max, b.max);
  const min = Math.max(a.min, b.min);
  const required = merged(a.required, b.required);
  if (max !== null && Math.max(min, required.length) > max) return null;
  return {
    tables: merged(a.tables, b.tables),
    required,
    dependents: merged(a.dependents, b.dependents),
    min,
    max,
    names: merged(a.names, b.names),
    evaluated: {
      all: a.evaluated.all || b.evaluated.all,
      names: merged(a.evaluated.names, b.evaluated.names),
      patterns: merged(a.evaluated.patterns, b.evaluated.patterns),
    },
  };
}

/** What both say, each once. */
function merged<Item>(a: readonly Item[], b: readonly Item[]): readonly Item[] {
  if (b.length === 0) return a;
  if (a.length === 0) return b;
  const byKey = new Map([...a, ...b].map((item) => [keyOf(item), item]));
  return [...byKey.values()];
}
