// Conjunctions of schemas and of what schemas exclude, each registered once: what is inside objects and arrays is named by
// them, so that a schema that contains itself has finitely many.

import { preview } from '../../util/preview.ts';
import type { Fault } from '../grammar-builder.ts';
import type { Budget } from '../limits.ts';
import { intersection } from './algebra.ts';
import { complement } from './complement.ts';
import type { SchemaIndex, SchemaLocation } from './schema-index.ts';
import { ANY_VALUES, type ArrayShape, type ExprId, type ObjectShape, type Values } from './values.ts';

type Atom = { readonly schema: SchemaLocation } | { readonly not: ExprId };

/** Levels of objects and arrays that are searched for a contradiction. */
const MAX_SEARCHED = 12;
/** Schemas that a message names. */
const MAX_NAMED = 3;

export class Expressions {
  readonly index: SchemaIndex;
  readonly budget: Budget;
  readonly #evaluate: (location: SchemaLocation, expressions: Expressions) => Values;
  readonly #atoms: (readonly Atom[])[] = [];
  readonly #ids = new Map<string, ExprId>();
  readonly #values = new Map<ExprId, Values | 'pending'>();
  readonly #empty = new Map<ExprId, boolean>();
  readonly true: ExprId;
  readonly false: ExprId;

  constructor(
    index: SchemaIndex,
    budget: Budget,
    evaluate: (location: SchemaLocation, expressions: Expressions) => Values,
  ) {
    this.index = index;
    this.budget = budget;
    this.#evaluate = evaluate;
    this.true = this.#register([]);
    this.false = this.#register([{ schema: index.false }]);
  }

  of(location: SchemaLocation): ExprId {
    return this.#register([{ schema: location }]);
  }

  /** Exactly this value. */
  constant(value: unknown): ExprId {
    return this.of(this.index.constant(this.index.root, value));
  }

  all(...parts: readonly ExprId[]): ExprId {
    const distinct = [...new Set(parts)];
    if (distinct.length === 1) return distinct[0]!;
    return this.#register(distinct.flatMap((part) => this.#atoms[part]!));
  }

  not(part: ExprId): ExprId {
    if (part === this.true) return this.false;
    if (part === this.false) return this.true;
    const [atom, ...others] = this.#atoms[part]!;
    if (atom !== undefined && others.length === 0 && 'not' in atom) return atom.not;
    return this.#register([{ not: part }]);
  }

  either(a: ExprId, b: ExprId): ExprId {
    return this.not(this.all(this.not(a), this.not(b)));
  }

  /** The schemas that an expression is made of, for messages. */
  where(expression: ExprId): string {
    const pointers = new Set<string>();
    const add = (part: ExprId): void => {
      for (const atom of this.#atoms[part]!) {
        if ('not' in atom) add(atom.not);
        else pointers.add(atom.schema.pointer === '' ? '/' : atom.schema.pointer);
      }
    };
    add(expression);
    return `The schema at ${[...pointers].slice(0, MAX_NAMED).join(' and ')}`;
  }

  /** The innermost schemas for which an expression that is empty is so. */
  faultOf(expression: ExprId): Fault {
    const seen = new Set<ExprId>([this.false]);
    for (let at = expression; ; ) {
      seen.add(at);
      const key = this.#emptyKey(at);
      if (key === null) return { where: this.where(at), why: '' };
      if (seen.has(key.value))
        return { where: this.where(at), why: `: it requires ${preview(key.name)}, which can have no value` };
      at = key.value;
    }
  }

  /** Where all values are objects of one shape: a key that they must have and that can have no value. */
  #emptyKey(expression: ExprId): { name: string; value: ExprId } | null {
    const { objects, ...others } = this.expand(expression);
    const [shape] = objects;
    if (shape === undefined || objects.length > 1 || !this.areEmpty({ ...others, objects: [] })) return null;
    const keys = shape.required.map((name) => ({ name, value: this.#valueOf(shape, name) }));
    const forbidden = keys.find(({ value }) => value === this.false);
    return forbidden ?? keys.find(({ value }) => this.isEmpty(value)) ?? null;
  }

  /** The values that satisfy an expression; what is inside them stays unexpanded. */
  expand(expression: ExprId): Values {
    const known = this.#values.get(expression);
    if (known === 'pending') this.budget.refuse('refers to itself without an object or array in between');
    if (known !== undefined) return known;
    this.#values.set(expression, 'pending');
    let values = ANY_VALUES;
    for (const atom of this.#atoms[expression]!) {
      const part =
        'not' in atom ? complement(this.expand(atom.not), this) : this.#evaluate(atom.schema, this);
      values = intersection(values, part, this.budget);
    }
    this.#values.set(expression, values);
    return values;
  }

  /** No value satisfies it; false where that is not found out within some levels of nesting. */
  isEmpty(expression: ExprId, level = 0): boolean {
    if (expression === this.false) return true;
    const known = this.#empty.get(expression);
    if (known !== undefined) return known;
    if (level > MAX_SEARCHED || this.#values.get(expression) === 'pending') return false;
    const isEmpty = this.areEmpty(this.expand(expression), level + 1);
    // What is empty at some level is so at all; what is not may not have been found out.
    if (isEmpty || level === 0) this.#empty.set(expression, isEmpty);
    return isEmpty;
  }

  areEmpty({ literals, numbers, strings, arrays, objects }: Values, level = 0): boolean {
    if (literals.length > 0 || numbers.length > 0 || strings.length > 0) return false;
    return (
      arrays.every((shape) => this.#isEmptyArray(shape, level)) &&
      objects.every((shape) => this.#isEmptyObject(shape, level))
    );
  }

  #isEmptyArray({ tables, min }: ArrayShape, level: number): boolean {
    for (let place = 0; place < min && place < 64; place += 1) {
      const item = this.all(...tables.map(({ prefix, rest }) => prefix[place] ?? rest));
      if (this.isEmpty(item, level)) return true;
    }
    return false;
  }

  #isEmptyObject(shape: ObjectShape, level: number): boolean {
    return shape.required.some((name) => this.isEmpty(this.#valueOf(shape, name), level));
  }

  /** Of a key, but for patterns: these can only make it smaller. */
  #valueOf({ tables }: ObjectShape, name: string): ExprId {
    const values = tables.flatMap((table) => {
      const own = table.properties.get(name);
      if (own !== undefined) return [own];
      return table.patterns.length === 0 ? [table.additional] : [];
    });
    return this.all(...values);
  }

  #register(atoms: readonly Atom[]): ExprId {
    const byKey = new Map<string, Atom>();
    for (const atom of atoms) {
      if ('schema' in atom && atom.schema === this.index.true) continue;
      byKey.set('not' in atom ? `!${atom.not}` : String(atom.schema.id), atom);
    }
    const isContradiction = [...byKey.values()].some(
      (atom) =>
        ('schema' in atom && atom.schema === this.index.false) ||
        ('not' in atom && this.#isAmong(atom.not, byKey)),
    );
    const key = isContradiction ? String(this.index.false.id) : [...byKey.keys()].sort().join();
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    this.budget.spend(50 + byKey.size);
    const id = this.#atoms.length;
    this.#atoms.push(isContradiction ? [{ schema: this.index.false }] : [...byKey.values()]);
    this.#ids.set(key, id);
    return id;
  }

  #isAmong(expression: ExprId, byKey: ReadonlyMap<string, Atom>): boolean {
    const atoms = this.#atoms[expression]!;
    return atoms.every((atom) => byKey.has('not' in atom ? `!${atom.not}` : String(atom.schema.id)));
  }
}
