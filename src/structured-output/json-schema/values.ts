// Sets of JSON values, type by type: a union of shapes for each. Shapes can be intersected and, mostly, negated; what is in
// objects and arrays is named by expressions, so that schemas may contain themselves.

import type { Dfa } from '../regular/dfa.ts';

/** A conjunction of schemas and negated expressions, by the id under which it is registered. */
export type ExprId = number;

export interface NumberSet {
  /** Bounds belong to the set. */
  readonly min: number;
  readonly max: number;
  readonly shape: 'any' | 'integer' | 'fraction';
  readonly multiples: readonly number[];
  readonly nonMultiples: readonly number[];
}

export interface StringSet {
  /** Over the bytes of the string itself; null: any text whose number of characters is within the bounds. */
  readonly dfa: Dfa | null;
  readonly min: number;
  readonly max: number | null;
}

/** What one schema says about the members of an object. */
export interface MemberTable {
  readonly properties: ReadonlyMap<string, ExprId>;
  readonly patterns: readonly (readonly [pattern: string, value: ExprId])[];
  readonly additional: ExprId;
}

export interface ObjectShape {
  readonly tables: readonly MemberTable[];
  readonly required: readonly string[];
  readonly dependents: readonly (readonly [name: string, others: readonly string[]])[];
  readonly min: number;
  readonly max: number | null;
  /** What names must be, as values. */
  readonly names: readonly ExprId[];
  /** Members that some schema has looked at: what unevaluatedProperties leaves out. */
  readonly evaluated: Evaluated;
}

export interface Evaluated {
  readonly all: boolean;
  readonly names: readonly string[];
  readonly patterns: readonly string[];
}

export interface ItemTable {
  readonly prefix: readonly ExprId[];
  readonly rest: ExprId;
}

export interface Contains {
  readonly item: ExprId;
  readonly min: number;
  readonly max: number | null;
  /** Items before this place do not count. */
  readonly from: number;
}

export interface ArrayShape {
  readonly tables: readonly ItemTable[];
  readonly contains: readonly Contains[];
  readonly min: number;
  readonly max: number | null;
  readonly isUnique: boolean;
  /** Items that some schema has looked at: the first ones, and those that match. */
  readonly evaluatedPrefix: number;
  readonly evaluatedItems: readonly ExprId[];
}

export interface Values {
  readonly literals: readonly ('null' | 'true' | 'false')[];
  readonly numbers: readonly NumberSet[];
  readonly strings: readonly StringSet[];
  readonly arrays: readonly ArrayShape[];
  readonly objects: readonly ObjectShape[];
}

export const ANY_NUMBERS: NumberSet = {
  min: Number.NEGATIVE_INFINITY,
  max: Number.POSITIVE_INFINITY,
  shape: 'any',
  multiples: [],
  nonMultiples: [],
};
export const ANY_STRINGS: StringSet = { dfa: null, min: 0, max: null };
export const ANY_ARRAY: ArrayShape = {
  tables: [],
  contains: [],
  min: 0,
  max: null,
  isUnique: false,
  evaluatedPrefix: 0,
  evaluatedItems: [],
};
export const ANY_OBJECT: ObjectShape = {
  tables: [],
  required: [],
  dependents: [],
  min: 0,
  max: null,
  names: [],
  evaluated: { all: false, names: [], patterns: [] },
};
export const NO_VALUES: Values = { literals: [], numbers: [], strings: [], arrays: [], objects: [] };
export const ANY_VALUES: Values = {
  literals: ['null', 'true', 'false'],
  numbers: [ANY_NUMBERS],
  strings: [ANY_STRINGS],
  arrays: [ANY_ARRAY],
  objects: [ANY_OBJECT],
};
