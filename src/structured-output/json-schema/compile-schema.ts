// A JSON Schema becomes nodes of a grammar: one for each expression, a choice of what its values may be.

import type { JsonStyle } from '../constraint.ts';
import { type ArrayNode, afterItem, type Brackets, isArrayComplete, viableKey } from '../grammar.ts';
import type { GrammarBuilder } from '../grammar-builder.ts';
import { type Dfa, dfaOfWords, intersect, match, product, subtract, unite, wordsOf } from '../regular/dfa.ts';
import { parsePattern } from '../regular/regex.ts';
import { choice, EMPTY, type Regular, sequence, text, toDfa } from '../regular/regular.ts';
import { lengthDfa } from './algebra.ts';
import { Expressions } from './expressions.ts';
import { whitespace } from './json-text.ts';
import { keptDfa } from './kept-dfas.ts';
import { evaluateSchema } from './keywords.ts';
import { listedValues } from './listed-values.ts';
import { jsonNotation, markedNotation, type Notation } from './notation.ts';
import { numberDfa } from './number-text.ts';
import { SchemaIndex } from './schema-index.ts';
import type { ArrayShape, Contains, ExprId, NumberSet, ObjectShape, StringSet, Values } from './values.ts';

/** Keys outside the listed ones become names of their own where there are no more of them. */
const MAX_LISTED_KEYS = 256;
/** Points of an array that are kept apart where items are counted. */
const MAX_POINTS = 20_000;
/** Values of items that must differ: every set of them is a point that is kept apart. */
const MAX_DISTINCT = 12;
/** Patterns over the keys of one object. */
const MAX_PATTERNS = 20;

/** @returns the node of the JSON texts that the schema accepts. */
export function compileSchema(schema: unknown, style: JsonStyle, builder: GrammarBuilder): number {
  const index = new SchemaIndex(schema, builder.budget);
  const expressions = new Expressions(index, builder.budget, (location, all) =>
    evaluateSchema(location, all, style),
  );
  return new SchemaCompiler(expressions, style, builder).node(expressions.of(index.root));
}

/** Items of an array: what they are at each place, and for which of the counted schemas they count. */
interface ItemKind {
  readonly items: readonly ExprId[];
  readonly counts: readonly boolean[];
}

interface Keys {
  readonly names: readonly string[];
  readonly written: readonly Uint8Array[];
  readonly values: readonly ExprId[];
  /** Over keys as they are written. */
  readonly dfa: Dfa | null;
}

class SchemaCompiler {
  readonly #expressions: Expressions;
  readonly #builder: GrammarBuilder;
  readonly #notation: Notation;
  readonly #nodes = new Map<ExprId, number>();
  readonly #objectBrackets: Brackets;
  readonly #arrayBrackets: Brackets;
  readonly #colon: number;
  readonly #patterns = new Map<string, Dfa | null>();

  constructor(expressions: Expressions, style: JsonStyle, builder: GrammarBuilder) {
    this.#expressions = expressions;
    this.#builder = builder;
    this.#notation =
      style.quote === undefined ? jsonNotation(builder.budget) : markedNotation(style.quote, builder);
    const isCompact = style.compact === true;
    const space = whitespace(isCompact);
    const mark = (before: Regular, char: string, after: Regular): number => {
      const name = `mark ${char} ${isCompact}`;
      const dfa = keptDfa(name, () => toDfa(sequence(before, text(char), after), builder.budget)!);
      return builder.lexeme(dfa, { sharedName: name });
    };
    const comma = mark(space, ',', space);
    this.#colon = mark(space, ':', space);
    this.#objectBrackets = { open: mark(EMPTY, '{', space), comma, close: mark(space, '}', EMPTY) };
    this.#arrayBrackets = { open: mark(EMPTY, '[', space), comma, close: mark(space, ']', EMPTY) };
  }

  /** The node of an expression, made at its first use. */
  node(expression: ExprId): number {
    const known = this.#nodes.get(expression);
    if (known !== undefined) return known;
    const node = this.#builder.reserve();
    this.#nodes.set(expression, node);
    this.#builder.explain(node, () => this.#expressions.faultOf(expression));
    const values = this.#expressions.expand(expression);
    const { budget } = this.#builder;
    const before = budget.where;
    budget.where = this.#expressions.where(expression);
    const options = [
      ...this.#scalars(values),
      ...values.arrays.map((shape) => this.#array(shape)),
      ...values.objects.map((shape) => this.#object(shape)),
    ].filter((option) => option !== null);
    budget.where = before;
    this.#builder.fill(node, { kind: 'choice', options });
    return node;
  }

  /** All scalars are one automaton, but for strings whose characters are counted. */
  #scalars({ literals, numbers, strings }: Values): number[] {
    const bounded = strings.filter((set) => set.dfa === null && !isFree(set));
    const quoted = bounded.length === 0 ? null : this.#notation.counted();
    if (quoted === null) return [this.#uncounted({ literals, numbers, strings })];
    const rest = strings.filter((set) => !bounded.includes(set));
    return [
      this.#uncounted({ literals, numbers, strings: rest }),
      ...bounded.map(({ min, max }) =>
        this.#builder.text(quoted.dfa, {
          length: { min, max, quoted },
          sharedName: `${this.#notation.name}string ${min} ${max}`,
        }),
      ),
    ];
  }

  #uncounted({ literals, numbers, strings }: Pick<Values, 'literals' | 'numbers' | 'strings'>): number {
    const { budget } = this.#builder;
    const scalar = (): Regular =>
      choice(
        ...literals.map(text),
        ...numbers.map((set): Regular => ({ kind: 'dfa', dfa: numberDfa(set, budget) })),
        ...strings.map((set): Regular => {
          if (isFree(set)) return this.#notation.anyString;
          const dfa = set.dfa ?? lengthDfa(set, budget);
          return { kind: 'dfa', dfa: dfa === null ? null : this.#notation.string(dfa) };
        }),
      );
    const isFixed = numbers.every(isAnyNumber) && strings.every(isFree);
    if (!isFixed || literals.length + numbers.length + strings.length === 0)
      return this.#builder.regular(scalar());
    const names = [
      ...literals.toSorted(),
      ...numbers.map(({ shape }) => shape).toSorted(),
      ...strings.map(() => `${this.#notation.name}string`),
    ];
    const name = names.join(' ');
    return this.#builder.text(
      keptDfa(name, () => toDfa(scalar(), budget)),
      { sharedName: name },
    );
  }

  #array(shape: ArrayShape): number | null {
    const { tables, min } = shape;
    const longest = Math.max(
      0,
      ...tables.map(({ prefix }) => prefix.length),
      ...shape.contains.map(({ from }) => from),
    );
    const items = Array.from({ length: longest + 1 }, (_, place) =>
      this.#expressions.all(...tables.map(({ prefix, rest }) => prefix[place] ?? rest)),
    );
    const end = items.findIndex((item) => this.#expressions.isEmpty(item));
    const max = end < 0 ? shape.max : Math.min(end, shape.max ?? end);
    if (max !== null && min > max) return null;
    const counted = shape.contains.filter((part) => part.min > 0 || part.max !== null);
    const places = items.slice(0, max === null ? undefined : Math.max(1, max));
    const mayRepeat = !shape.isUnique || (max !== null && max <= 1);
    const distinct = mayRepeat ? [] : this.#distinctItems(places);
    const contains = [...counted, ...distinct];
    const itemKinds = ofEach(this.#kindsOfItems(places, counted), distinct, this.#expressions);
    const kinds = itemKinds.map(({ items: all, counts }) => ({
      places: all.map((item) => this.node(item)),
      counts,
    }));
    const node: ArrayNode = {
      kind: 'array',
      brackets: this.#arrayBrackets,
      kinds,
      contains,
      min,
      max,
      viable: null,
    };
    if (contains.length === 0) return this.#builder.add(node);
    const isEmpty = (kind: number, place: number): boolean => {
      const { items: all } = itemKinds[kind]!;
      return this.#expressions.isEmpty(all[Math.min(place, all.length - 1)]!);
    };
    return this.#builder.add({ ...node, viable: this.#viablePoints(node, isEmpty) });
  }

  /** Each value that an item may have, at most once. */
  #distinctItems(places: readonly ExprId[]): Contains[] {
    const listed = places.map((place) => listedValues(this.#expressions.expand(place), MAX_DISTINCT));
    const values = new Map(
      listed.flatMap((some) => some ?? []).map((value) => [JSON.stringify(value), value]),
    );
    if (listed.includes(null) || values.size > MAX_DISTINCT) {
      this.#builder.budget.refuse(
        `asks for uniqueItems, which can be enforced only where items are one of at most ${MAX_DISTINCT} values: ` +
          'list them by enum (texts, numbers, booleans and null), or leave uniqueItems out and look for repetitions in the answer',
      );
    }
    return [...values.values()].map((value) => ({
      item: this.#expressions.constant(value),
      min: 0,
      max: 1,
      from: 0,
    }));
  }

  /** One kind for each set of counted schemas that an item may satisfy. */
  #kindsOfItems(places: readonly ExprId[], contains: ArrayShape['contains']): ItemKind[] {
    if (contains.length > 4) this.#builder.budget.refuse('has more than 4 uses of "contains" for one array');
    return Array.from({ length: 2 ** contains.length }, (_, set) => {
      const counts = contains.map((_, i) => ((set >> i) & 1) === 1);
      // Where there is no upper limit, an item that is not counted may match as well.
      const said = contains.map(({ item, max }, i) => {
        if (counts[i] === true) return item;
        return max === null ? this.#expressions.true : this.#expressions.not(item);
      });
      const at = (place: ExprId, i: number): ExprId => {
        const parts = said.filter((_, n) => i >= (contains[n]?.from ?? 0));
        return this.#expressions.all(place, ...parts);
      };
      return { items: places.map(at), counts };
    });
  }

  /** The points of an array from which it can be finished. */
  #viablePoints(node: ArrayNode, isEmpty: (kind: number, place: number) => boolean): ReadonlySet<string> {
    const start = { count: 0, seen: node.contains.map(() => 0) };
    const points = [start as { count: number; seen: readonly number[] }];
    const sources = new Map<string, string[]>([[viableKey(start.count, start.seen), []]]);
    const viable = new Set<string>();
    for (const { count, seen } of points) {
      if (points.length > MAX_POINTS) this.#builder.budget.refuse('counts the items of too long an array');
      const key = viableKey(count, seen);
      if (isArrayComplete(node, { count, seen })) viable.add(key);
      if (node.max !== null && count >= node.max) continue;
      for (const [kind] of node.kinds.entries()) {
        if (isEmpty(kind, count)) continue;
        const next = afterItem(node, count, kind, seen);
        if (node.contains.some(({ max }, i) => max !== null && next.seen[i]! > max)) continue;
        const nextKey = viableKey(next.count, next.seen);
        const known = sources.get(nextKey);
        if (known === undefined) points.push(next);
        sources.set(nextKey, [...(known ?? []), key]);
      }
    }
    for (const key of viable) for (const source of sources.get(key) ?? []) viable.add(source);
    return viable;
  }

  #object(shape: ObjectShape): number | null {
    const { budget } = this.#builder;
    const { required, dependents, tables, min, max } = shape;
    const keys = this.#keys(shape);
    const byName = new Map(keys.names.map((name, label) => [name, label]));
    if (required.some((name) => !byName.has(name))) return null;
    const closed = new Set(keys.names);
    const blocked = dependents.filter(([, others]) => others.some((other) => !closed.has(other)));
    if (blocked.length > 0) {
      // A name that makes a forbidden one required is forbidden itself.
      const properties = new Map(blocked.map(([name]) => [name, this.#expressions.false]));
      const table = { properties, patterns: [], additional: this.#expressions.true };
      const kept = dependents.filter((one) => !blocked.includes(one));
      return this.#object({ ...shape, dependents: kept, tables: [...tables, table] });
    }
    if (min > 1 && keys.values.length > keys.names.length)
      budget.refuse('asks for minProperties of more than 1 where other keys than the listed ones may come');
    if (keys.dfa === null) return min > 0 ? null : this.#emptyObject();
    const { dfa: ownDfa, written } = keys;
    const sharedName = isAnyKey(shape) ? `${this.#notation.name}key` : null;
    const key = this.#builder.lexeme(sharedName === null ? ownDfa : keptDfa(sharedName, () => ownDfa), {
      keys: { names: written, numLabels: keys.values.length },
      sharedName,
    });
    return this.#builder.add({
      kind: 'object',
      brackets: this.#objectBrackets,
      colon: this.#colon,
      key,
      numNames: written.length,
      values: keys.values.map((value) => this.node(value)),
      required: required.map((name) => byName.get(name)!),
      dependents: keys.names.map((name) =>
        dependents.flatMap(([one, others]) =>
          one === name ? others.map((other) => byName.get(other)!) : [],
        ),
      ),
      min,
      max,
    });
  }

  #emptyObject(): number {
    const { open, close } = this.#objectBrackets;
    const parts = [open, close].map((lexeme) => this.#builder.add({ kind: 'lexeme', lexeme }));
    return this.#builder.add({ kind: 'sequence', parts });
  }

  /** The keys that an object may have: listed ones, then classes of others, and the value of each. */
  #keys(shape: ObjectShape): Keys {
    const { budget } = this.#builder;
    const { tables, required, dependents } = shape;
    const listed = new Set([
      ...tables.flatMap(({ properties }) => [...properties.keys()]),
      ...required,
      ...dependents.flatMap(([name, others]) => [name, ...others]),
    ]);
    const allowed = this.#allowedNames(shape);
    const others = this.#otherKeys(shape, allowed, [...listed]);
    const more = others.dfa === null ? [] : wordsOf(others.dfa, MAX_LISTED_KEYS);
    for (const word of more ?? []) listed.add(Buffer.from(word).toString());
    const names = [...listed].filter(
      (name) =>
        (allowed === null || match(allowed, name) >= 0) &&
        !this.#expressions.isEmpty(this.#valueOf(shape, name)),
    );
    const values = names.map((name) => this.#valueOf(shape, name));
    const written = names.map((name) => this.#notation.key(name));
    const words = dfaOfWords(written, budget);
    if (more !== null || others.dfa === null) return { names, written, values, dfa: words };
    const dfa = product(words, this.#notation.otherKeys(others.dfa), budget, (name, other) => {
      if (name >= 0) return name;
      return other < 0 ? -1 : names.length + other;
    });
    return { names, written, values: [...values, ...others.values], dfa };
  }

  /** Null where any name is allowed. */
  #allowedNames({ names }: ObjectShape): Dfa | null {
    if (names.length === 0) return null;
    const { budget } = this.#builder;
    const { strings } = this.#expressions.expand(this.#expressions.all(...names));
    const parts = strings.map((set) => set.dfa ?? lengthDfa(set, budget));
    const united = parts.reduce<Dfa | null>((all, part) => unite(all, part, budget), null);
    // An automaton of nothing: no name is allowed.
    return united ?? dfaOfWords([Buffer.from('\0')], budget);
  }

  #valueOf({ tables }: ObjectShape, name: string): ExprId {
    const values = tables.flatMap(({ properties, patterns, additional }) => {
      const own = properties.get(name);
      const matching = patterns.filter(([pattern]) => this.#matches(pattern, name)).map(([, value]) => value);
      const said = own === undefined ? matching : [own, ...matching];
      return said.length === 0 ? [additional] : said;
    });
    return this.#expressions.all(...values);
  }

  #matches(pattern: string, name: string): boolean {
    const dfa = this.#pattern(pattern);
    return dfa !== null && match(dfa, name) >= 0;
  }

  #pattern(pattern: string): Dfa | null {
    const known = this.#patterns.get(pattern);
    if (known !== undefined) return known;
    const dfa = toDfa(parsePattern(pattern, this.#builder.budget), this.#builder.budget);
    this.#patterns.set(pattern, dfa);
    return dfa;
  }

  /** Keys that are not listed, labelled by the patterns that they match. */
  #otherKeys(
    { tables }: ObjectShape,
    allowed: Dfa | null,
    listed: readonly string[],
  ): { dfa: Dfa | null; values: ExprId[] } {
    const { budget } = this.#builder;
    const patterns = [...new Set(tables.flatMap((table) => table.patterns.map(([pattern]) => pattern)))];
    if (patterns.length > MAX_PATTERNS)
      budget.refuse(`has more than ${MAX_PATTERNS} patterns for one object`);
    let dfa = subtract(
      this.#notation.otherKey,
      dfaOfWords(
        listed.map((name) => Buffer.from(name)),
        budget,
      ),
      budget,
    );
    if (allowed !== null) dfa = intersect(dfa, allowed, budget);
    for (const [i, pattern] of patterns.entries()) {
      dfa = product(dfa, this.#pattern(pattern), budget, (set, matches) =>
        set < 0 ? -1 : set | (matches >= 0 ? 1 << i : 0),
      );
    }
    return this.#labelClasses(dfa, (set) => {
      const values = tables.flatMap((table) => {
        const matching = table.patterns.filter(([pattern]) => ((set >> patterns.indexOf(pattern)) & 1) === 1);
        return matching.length === 0 ? [table.additional] : matching.map(([, value]) => value);
      });
      return this.#expressions.all(...values);
    });
  }

  /** Numbers the classes whose value exists, and leaves out the others. */
  #labelClasses(dfa: Dfa | null, exprOf: (set: number) => ExprId): { dfa: Dfa | null; values: ExprId[] } {
    const values: ExprId[] = [];
    const byValue = new Map<ExprId, number>();
    const bySet = new Map<number, number>();
    for (const set of new Set(dfa?.labels)) {
      if (set < 0) continue;
      const value = exprOf(set);
      if (this.#expressions.isEmpty(value)) continue;
      const known = byValue.get(value) ?? values.push(value) - 1;
      byValue.set(value, known);
      bySet.set(set, known);
    }
    const kept = product(dfa, null, this.#builder.budget, (set) => bySet.get(set) ?? -1);
    return { dfa: kept, values };
  }
}

/** Of each kind one for every value that may come once: no item is of two of them. */
function ofEach(
  kinds: readonly ItemKind[],
  distinct: readonly Contains[],
  expressions: Expressions,
): readonly ItemKind[] {
  if (distinct.length === 0) return kinds;
  return kinds.flatMap(({ items, counts }) =>
    distinct.map(({ item }, own) => ({
      items: items.map((place) => expressions.all(place, item)),
      counts: [...counts, ...distinct.map((_, i) => i === own)],
    })),
  );
}

function isFree({ dfa, min, max }: StringSet): boolean {
  return dfa === null && min === 0 && max === null;
}

/** But for whether it is an integer. */
function isAnyNumber({ min, max, multiples, nonMultiples }: NumberSet): boolean {
  return min === -Infinity && max === Infinity && multiples.length + nonMultiples.length === 0;
}

/** Nothing is said about any key. */
function isAnyKey({ names, tables, required, dependents }: ObjectShape): boolean {
  const isSilent = tables.every(({ properties, patterns }) => properties.size + patterns.length === 0);
  return isSilent && names.length + required.length + dependents.length === 0;
}
