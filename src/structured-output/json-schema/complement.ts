// The values that are not in a set: what each part of a shape says is denied in turn.

import type { Budget } from '../limits.ts';
import { subtract } from '../regular/dfa.ts';
import { ANY_CHAR, repeat, toDfa } from '../regular/regular.ts';
import { intersection, union } from './algebra.ts';
import { nextDown, nextUp } from './doubles.ts';
import {
  ANY_ARRAY,
  ANY_NUMBERS,
  ANY_OBJECT,
  ANY_VALUES,
  type ArrayShape,
  type ExprId,
  type MemberTable,
  NO_VALUES,
  type NumberSet,
  type ObjectShape,
  type StringSet,
  type Values,
} from './values.ts';

/** What the complement of a shape needs of the expressions inside it. */
export interface Negations {
  readonly budget: Budget;
  readonly true: ExprId;
  readonly false: ExprId;
  not(part: ExprId): ExprId;
  isEmpty(part: ExprId): boolean;
}

/** @throws ConstraintError where the complement is none of the sets that can be written. */
export function complement(values: Values, negations: Negations): Values {
  const { budget } = negations;
  const literals = ANY_VALUES.literals.filter((literal) => !values.literals.includes(literal));
  const denied = [
    ...values.numbers.map((set) => ({ ...ANY_VALUES, numbers: notNumbers(set) })),
    ...values.strings.map((set) => ({ ...ANY_VALUES, strings: notStrings(set, budget) })),
    ...values.arrays.map((shape) => ({ ...ANY_VALUES, arrays: notArrays(shape, negations) })),
    ...values.objects.map((shape) => ({ ...ANY_VALUES, objects: notObjects(shape, negations) })),
  ];
  const others = denied.reduce((all, one) => intersection(all, one, budget), ANY_VALUES);
  return union([NO_VALUES, { ...others, literals }], budget);
}

function notNumbers({ min, max, shape, multiples, nonMultiples }: NumberSet): NumberSet[] {
  const sets: NumberSet[] = [];
  if (min > Number.NEGATIVE_INFINITY) sets.push({ ...ANY_NUMBERS, max: nextDown(min) });
  if (max < Number.POSITIVE_INFINITY) sets.push({ ...ANY_NUMBERS, min: nextUp(max) });
  if (shape === 'integer') sets.push({ ...ANY_NUMBERS, shape: 'fraction' });
  if (shape === 'fraction') sets.push({ ...ANY_NUMBERS, shape: 'integer' });
  for (const divisor of multiples) sets.push({ ...ANY_NUMBERS, nonMultiples: [divisor] });
  for (const divisor of nonMultiples) sets.push({ ...ANY_NUMBERS, multiples: [divisor] });
  return sets;
}

function notStrings({ dfa, min, max }: StringSet, budget: Budget): StringSet[] {
  if (dfa !== null) {
    const rest = subtract(toDfa(repeat(ANY_CHAR, 0, null), budget), dfa, budget);
    return rest === null ? [] : [{ dfa: rest, min: 0, max: null }];
  }
  const shorter = min > 0 ? [{ dfa: null, min: 0, max: min - 1 }] : [];
  return max === null ? shorter : [...shorter, { dfa: null, min: max + 1, max: null }];
}

function notArrays(shape: ArrayShape, negations: Negations): ArrayShape[] {
  const { true: any } = negations;
  const shapes: ArrayShape[] = [];
  if (shape.isUnique) negations.budget.refuse('excludes uniqueItems, which cannot be enforced');
  if (shape.min > 0) shapes.push({ ...ANY_ARRAY, max: shape.min - 1 });
  if (shape.max !== null) shapes.push({ ...ANY_ARRAY, min: shape.max + 1 });
  for (const { prefix, rest } of shape.tables) {
    for (const [place, item] of prefix.entries()) {
      const denied = { prefix: [...prefix.slice(0, place).map(() => any), negations.not(item)], rest: any };
      if (item !== any) shapes.push({ ...ANY_ARRAY, tables: [denied], min: place + 1 });
    }
    if (rest === any) continue;
    const denied = { item: negations.not(rest), min: 1, max: null, from: prefix.length };
    if (rest === negations.false) shapes.push({ ...ANY_ARRAY, min: prefix.length + 1 });
    else shapes.push({ ...ANY_ARRAY, contains: [denied], min: prefix.length + 1 });
  }
  for (const { item, min, max, from } of shape.contains) {
    if (min > 0) shapes.push({ ...ANY_ARRAY, contains: [{ item, min: 0, max: min - 1, from }] });
    if (max !== null) shapes.push({ ...ANY_ARRAY, contains: [{ item, min: max + 1, max: null, from }] });
  }
  return shapes;
}

function notObjects(shape: ObjectShape, negations: Negations): ObjectShape[] {
  const { true: any, false: none } = negations;
  const member = (name: string, value: ExprId): MemberTable => ({
    properties: new Map([[name, value]]),
    patterns: [],
    additional: any,
  });
  const without = (name: string): MemberTable => member(name, none);
  const shapes: ObjectShape[] = shape.required.map((name) => ({ ...ANY_OBJECT, tables: [without(name)] }));
  for (const [name, others] of shape.dependents)
    for (const other of others) shapes.push({ ...ANY_OBJECT, required: [name], tables: [without(other)] });
  if (shape.min > 0) shapes.push({ ...ANY_OBJECT, max: shape.min - 1 });
  if (shape.max !== null) shapes.push({ ...ANY_OBJECT, min: shape.max + 1 });
  for (const { properties, patterns, additional } of shape.tables) {
    if (patterns.some(([, value]) => value !== any))
      negations.budget.refuse('excludes patternProperties, which cannot be enforced');
    if (additional !== any)
      negations.budget.refuse('excludes additionalProperties, which cannot be enforced');
    for (const [name, value] of properties) {
      if (value === any) continue;
      const tables = value === none ? [] : [member(name, negations.not(value))];
      shapes.push({ ...ANY_OBJECT, required: [name], tables });
    }
  }
  if (shape.names.length > 0) negations.budget.refuse('excludes propertyNames, which cannot be enforced');
  return shapes;
}
