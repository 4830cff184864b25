// What each keyword of JSON Schema says about a value, as a set of values. A schema is the intersection of its keywords.

import { preview } from '../../util/preview.ts';
import type { JsonStyle } from '../constraint.ts';
import { type Dfa, dfaOfWords } from '../regular/dfa.ts';
import { parsePattern, parseWholePattern } from '../regular/regex.ts';
import { toDfa } from '../regular/regular.ts';
import { intersection, union } from './algebra.ts';
import { complement } from './complement.ts';
import { nextDown, nextUp } from './doubles.ts';
import type { Expressions } from './expressions.ts';
import { FORMATS, REFUSED_FORMATS } from './formats.ts';
import { escapePointer, isObject, type JsonObject, type SchemaLocation } from './schema-index.ts';
import {
  ANY_ARRAY,
  ANY_NUMBERS,
  ANY_OBJECT,
  ANY_STRINGS,
  ANY_VALUES,
  type ArrayShape,
  type ExprId,
  NO_VALUES,
  type ObjectShape,
  type Values,
} from './values.ts';

/** Beside these a schema does not say alone what members an object has. */
const OPENING = [
  '$dynamicRef',
  '$ref',
  'additionalProperties',
  'allOf',
  'anyOf',
  'const',
  'dependencies',
  'dependentSchemas',
  'enum',
  'if',
  'oneOf',
  'patternProperties',
  'unevaluatedProperties',
];
/** What they name may say all of a value, where nothing else is said of its members. */
const WHOLE = ['$dynamicRef', '$ref', 'allOf', 'anyOf', 'oneOf'];
/** Any of them says something of what is in a value, or may. */
const OF_INSIDE = ['additionalItems', 'items', 'prefixItems', 'properties', ...OPENING];
/** Branches of one anyOf that are combined where it matters which of them hold. */
const MAX_COMBINED = 6;

export function evaluateSchema(location: SchemaLocation, expressions: Expressions, style: JsonStyle): Values {
  if (typeof location.schema === 'boolean') return location.schema ? ANY_VALUES : NO_VALUES;
  return new SchemaEvaluation(location, location.schema, expressions, style).evaluate();
}

class SchemaEvaluation {
  readonly #location: SchemaLocation;
  readonly #schema: JsonObject;
  readonly #expressions: Expressions;
  readonly #style: JsonStyle;

  constructor(location: SchemaLocation, schema: JsonObject, expressions: Expressions, style: JsonStyle) {
    this.#location = location;
    this.#schema = schema;
    this.#expressions = expressions;
    this.#style = style;
  }

  evaluate(): Values {
    const isDraft7 = this.#location.dialect === 'draft7';
    if (isDraft7 && '$ref' in this.#schema) return this.#reference('$ref');
    let values = ANY_VALUES;
    const meet = (keyword: string, part: () => Values): void => {
      if (!(keyword in this.#schema)) return;
      values = intersection(values, this.#about(keyword, part), this.#expressions.budget);
    };
    meet('type', () => this.#type());
    meet('const', () => this.#constants([this.#schema.const]));
    meet('enum', () => this.#constants(this.#list('enum')));
    values = intersection(values, this.#numbers(), this.#expressions.budget);
    values = intersection(values, this.#strings(), this.#expressions.budget);
    values = intersection(values, this.#arrays(), this.#expressions.budget);
    values = intersection(values, this.#objects(), this.#expressions.budget);
    meet('$ref', () => this.#reference('$ref'));
    meet('$dynamicRef', () => this.#reference('$dynamicRef'));
    meet('$recursiveRef', () => this.#refuse('cannot be enforced'));
    meet('allOf', () => this.#allOf());
    meet('anyOf', () => this.#anyOf());
    meet('oneOf', () => this.#oneOf());
    meet('not', () => complement(this.#expand(this.#part('not')), this.#expressions));
    meet('if', () => this.#condition());
    meet('dependentSchemas', () => this.#dependentSchemas('dependentSchemas'));
    meet('dependencies', () => this.#dependentSchemas('dependencies'));
    if ('unevaluatedProperties' in this.#schema)
      values = this.#about('unevaluatedProperties', () => this.#unevaluatedProperties(values));
    if ('unevaluatedItems' in this.#schema)
      values = this.#about('unevaluatedItems', () => this.#unevaluatedItems(values));
    return values;
  }

  /** Names the keyword in what is refused meanwhile. */
  #about<Result>(keyword: string, part: () => Result): Result {
    const { budget } = this.#expressions;
    const before = budget.where;
    const pointer = `${this.#location.pointer}/${keyword}`;
    budget.where = `"${keyword}" at ${pointer}`;
    const result = part();
    budget.where = before;
    return result;
  }

  #refuse(what: string): never {
    return this.#expressions.budget.refuse(what);
  }

  /** A schema about what is in the value. */
  #sub(keyword: string, value: unknown = this.#schema[keyword], path = `/${keyword}`): ExprId {
    return this.#at(this.#inside(value, path), this.#location.isOpen || this.#partsSayMore());
  }

  /** A schema about the value itself. */
  #part(keyword: string, value: unknown = this.#schema[keyword], path = `/${keyword}`): ExprId {
    return this.#at(this.#inside(value, path), !this.#saysAll(keyword));
  }

  #inside(value: unknown, path: string): SchemaLocation {
    return this.#expressions.index.inside(this.#location, value, path);
  }

  #at(location: SchemaLocation, isOpen: boolean): ExprId {
    const { index } = this.#expressions;
    const mayClose = this.#style.closedObjects === true;
    return this.#expressions.of(mayClose && isOpen ? index.opened(location) : location);
  }

  /** No other keyword, and no other part of this one, says more of the members of an object. */
  #saysAll(keyword: string): boolean {
    if (this.#location.isOpen || !WHOLE.includes(keyword)) return false;
    if (keyword === 'allOf' && this.#list('allOf').length > 1) return false;
    return !OF_INSIDE.some((other) => other !== keyword && other in this.#schema);
  }

  /** What is in the value may be what its parts say of it, too. */
  #partsSayMore(): boolean {
    if (this.#style.closedObjects !== true) return false;
    const { $dynamicRef, $ref, if: condition, then, else: otherwise, ...schema } = this.#schema;
    const lists = ['allOf', 'anyOf', 'dependencies', 'dependentSchemas', 'oneOf'];
    const parts = [condition, then, otherwise, ...lists.flatMap((key) => Object.values(schema[key] ?? {}))];
    const saysMore = (part: unknown) => isObject(part) && OF_INSIDE.some((key) => key in part);
    return $dynamicRef !== undefined || $ref !== undefined || parts.some(saysMore);
  }

  #expand(expression: ExprId): Values {
    return this.#expressions.expand(expression);
  }

  #list(keyword: string): readonly unknown[] {
    const value = this.#schema[keyword];
    return Array.isArray(value) ? value : this.#refuse(`must be an array, got ${preview(value)}`);
  }

  #subs(keyword: string): ExprId[] {
    const list = this.#list(keyword);
    if (list.length === 0) this.#refuse('must not be empty');
    return list.map((value, i) => this.#part(keyword, value, `/${keyword}/${i}`));
  }

  #named(keyword: string): [string, unknown][] {
    const value = this.#schema[keyword];
    return isObject(value) ? Object.entries(value) : this.#refuse(`must be an object, got ${preview(value)}`);
  }

  /** Undefined where the schema does not have the keyword. */
  #number(keyword: string): number | undefined {
    const value = this.#schema[keyword];
    if (value === undefined) return undefined;
    return this.#about(keyword, () =>
      typeof value === 'number' && Number.isFinite(value)
        ? value
        : this.#refuse(`must be a number, got ${preview(value)}`),
    );
  }

  #count(keyword: string): number | undefined {
    const value = this.#number(keyword);
    if (value === undefined || (Number.isInteger(value) && value >= 0)) return value;
    return this.#about(keyword, () => this.#refuse(`must be a whole number of at least 0, got ${value}`));
  }

  #type(): Values {
    const { type, nullable } = this.#schema;
    const types: unknown[] = Array.isArray(type) ? type : [type];
    // OpenAPI 3.0 says so what JSON Schema says by one more type.
    return union(
      (nullable === true ? [...types, 'null'] : types).map((name) => this.#valuesOfType(name)),
      this.#expressions.budget,
    );
  }

  #valuesOfType(name: unknown): Values {
    switch (name) {
      case 'null':
        return { ...NO_VALUES, literals: ['null'] };
      case 'boolean':
        return { ...NO_VALUES, literals: ['true', 'false'] };
      case 'integer':
        return { ...NO_VALUES, numbers: [{ ...ANY_NUMBERS, shape: 'integer' }] };
      case 'number':
        return { ...NO_VALUES, numbers: [ANY_NUMBERS] };
      case 'string':
        return { ...NO_VALUES, strings: [ANY_STRINGS] };
      case 'array':
        return { ...NO_VALUES, arrays: [ANY_ARRAY] };
      case 'object':
        return { ...NO_VALUES, objects: [ANY_OBJECT] };
      default:
        return this.#refuse(`is no type: ${preview(name)}`);
    }
  }

  /** Nothing but its own properties, where objects are closed unless they say otherwise. */
  #isClosed(): boolean {
    const { type } = this.#schema;
    const isOfObjects = 'properties' in this.#schema || type === 'object';
    const isAlone = !this.#location.isOpen && !OPENING.some((key) => key in this.#schema);
    return this.#style.closedObjects === true && isOfObjects && isAlone;
  }

  #constants(values: readonly unknown[]): Values {
    const texts = values.filter((value) => typeof value === 'string');
    const words = texts.map((text) => Buffer.from(text));
    const dfa = words.length === 0 ? null : dfaOfWords(words, this.#expressions.budget);
    const others = values.filter((value) => typeof value !== 'string').map((value) => this.#constant(value));
    return union([{ ...NO_VALUES, strings: stringsOf(dfa) }, ...others], this.#expressions.budget);
  }

  #constant(value: unknown): Values {
    if (value === null) return { ...NO_VALUES, literals: ['null'] };
    if (typeof value === 'boolean') return { ...NO_VALUES, literals: [value ? 'true' : 'false'] };
    if (typeof value === 'number')
      return { ...NO_VALUES, numbers: [{ ...ANY_NUMBERS, min: value, max: value }] };
    const inner = (item: unknown): ExprId =>
      this.#expressions.of(this.#expressions.index.constant(this.#location, item));
    const none = this.#expressions.false;
    if (Array.isArray(value)) {
      const table = { prefix: value.map(inner), rest: none };
      return {
        ...NO_VALUES,
        arrays: [{ ...ANY_ARRAY, tables: [table], min: value.length, max: value.length }],
      };
    }
    if (!isObject(value)) return this.#refuse('must be a JSON value');
    const properties = new Map(Object.entries(value).map(([name, item]) => [name, inner(item)]));
    const table = { properties, patterns: [], additional: none };
    return { ...NO_VALUES, objects: [{ ...ANY_OBJECT, tables: [table], required: [...properties.keys()] }] };
  }

  #numbers(): Values {
    const low = this.#number('minimum') ?? Number.NEGATIVE_INFINITY;
    const above = this.#number('exclusiveMinimum');
    const high = this.#number('maximum') ?? Number.POSITIVE_INFINITY;
    const below = this.#number('exclusiveMaximum');
    const divisor = this.#number('multipleOf');
    if (divisor !== undefined && divisor <= 0)
      this.#about('multipleOf', () => this.#refuse(`must be more than 0, got ${divisor}`));
    const min = above === undefined ? low : Math.max(low, nextUp(above));
    const max = below === undefined ? high : Math.min(high, nextDown(below));
    if (min > max) return { ...ANY_VALUES, numbers: [] };
    const multiples = divisor === undefined ? [] : [divisor];
    return { ...ANY_VALUES, numbers: [{ ...ANY_NUMBERS, min, max, multiples }] };
  }

  #strings(): Values {
    const { budget } = this.#expressions;
    const min = this.#count('minLength') ?? 0;
    const max = this.#count('maxLength') ?? null;
    if (max !== null && min > max) return { ...ANY_VALUES, strings: [] };
    let values: Values = { ...ANY_VALUES, strings: [{ dfa: null, min, max }] };
    const meet = (keyword: string, dfa: (value: string) => Dfa | null): void => {
      const value = this.#schema[keyword];
      if (value === undefined) return;
      const strings = this.#about(keyword, () =>
        stringsOf(
          dfa(typeof value === 'string' ? value : this.#refuse(`must be a string, got ${preview(value)}`)),
        ),
      );
      values = this.#about(keyword, () => intersection(values, { ...ANY_VALUES, strings }, budget));
    };
    meet('pattern', (pattern) => toDfa(parsePattern(pattern, budget), budget));
    const { format } = this.#schema;
    if (this.#style.ignoreFormats === true || typeof format !== 'string') return values;
    if (Object.hasOwn(FORMATS, format))
      meet('format', (name) => toDfa(parseWholePattern(FORMATS[name]!, budget), budget));
    if (REFUSED_FORMATS.has(format))
      this.#about('format', () =>
        this.#refuse(`is ${preview(format)}, which cannot be enforced: leave it out, or say it by a pattern`),
      );
    return values;
  }

  #arrays(): Values {
    const min = this.#count('minItems') ?? 0;
    const max = this.#count('maxItems') ?? null;
    if (max !== null && min > max) return { ...ANY_VALUES, arrays: [] };
    const isUnique = this.#schema.uniqueItems === true;
    const shape: ArrayShape = { ...ANY_ARRAY, min, max, isUnique, ...this.#items(), ...this.#contains() };
    return { ...ANY_VALUES, arrays: [shape] };
  }

  #items(): Pick<ArrayShape, 'tables' | 'evaluatedPrefix'> {
    const schema = this.#schema;
    // Drafts before 2020-12 have a list here, and what follows it in another keyword.
    const prefixKey = Array.isArray(schema.items) ? 'items' : 'prefixItems';
    const restKey = prefixKey === 'items' ? 'additionalItems' : 'items';
    const isDraft7 = this.#location.dialect === 'draft7';
    const hasPrefix = prefixKey in schema && (prefixKey === 'items' || !isDraft7);
    if (!hasPrefix && !(restKey in schema)) return { tables: [], evaluatedPrefix: 0 };
    const list = hasPrefix ? this.#about(prefixKey, () => this.#list(prefixKey)) : [];
    const prefix = list.map((item, i) => this.#sub(prefixKey, item, `/${prefixKey}/${i}`));
    const hasRest = restKey in schema;
    const rest = hasRest ? this.#sub(restKey) : this.#expressions.true;
    const evaluatedPrefix = hasRest ? Number.MAX_SAFE_INTEGER : prefix.length;
    if (!this.#expressions.index.usesUnevaluated) return { tables: [{ prefix, rest }], evaluatedPrefix: 0 };
    return { tables: [{ prefix, rest }], evaluatedPrefix };
  }

  #contains(): Pick<ArrayShape, 'contains' | 'evaluatedItems'> {
    if (!('contains' in this.#schema)) return { contains: [], evaluatedItems: [] };
    const isDraft7 = this.#location.dialect === 'draft7';
    // Items count by what they are, not by what they would be if they were closed.
    const item = this.#at(this.#inside(this.#schema.contains, '/contains'), true);
    const min = isDraft7 ? 1 : (this.#count('minContains') ?? 1);
    const max = isDraft7 ? null : (this.#count('maxContains') ?? null);
    return {
      contains: [{ item, min, max, from: 0 }],
      evaluatedItems: this.#expressions.index.usesUnevaluated ? [item] : [],
    };
  }

  #objects(): Values {
    const min = this.#count('minProperties') ?? 0;
    const max = this.#count('maxProperties') ?? null;
    const required = 'required' in this.#schema ? this.#about('required', () => this.#names('required')) : [];
    if (max !== null && Math.max(min, required.length) > max) return { ...ANY_VALUES, objects: [] };
    const names = 'propertyNames' in this.#schema ? [this.#sub('propertyNames')] : [];
    const dependents = this.#dependentNames();
    const shape: ObjectShape = { ...ANY_OBJECT, min, max, required, names, dependents, ...this.#members() };
    return { ...ANY_VALUES, objects: [shape] };
  }

  #names(keyword: string, list: unknown = this.#schema[keyword]): string[] {
    if (!Array.isArray(list) || !list.every((name) => typeof name === 'string'))
      return this.#refuse(`must be an array of strings, got ${preview(list)}`);
    return [...new Set<string>(list)];
  }

  #dependentNames(): [string, readonly string[]][] {
    return ['dependentRequired', 'dependencies'].flatMap((keyword) => {
      if (!(keyword in this.#schema)) return [];
      return this.#about(keyword, () =>
        this.#named(keyword).flatMap(([name, others]): [string, readonly string[]][] =>
          keyword === 'dependencies' && !Array.isArray(others) ? [] : [[name, this.#names(keyword, others)]],
        ),
      );
    });
  }

  #members(): Pick<ObjectShape, 'tables' | 'evaluated'> {
    const named = (keyword: string): [string, ExprId][] => {
      if (!(keyword in this.#schema)) return [];
      return this.#about(keyword, () => this.#named(keyword)).map(([name, value]) => [
        name,
        this.#sub(keyword, value, `/${keyword}/${escapePointer(name)}`),
      ]);
    };
    const properties = new Map(named('properties'));
    const patterns = named('patternProperties');
    const hasRest = 'additionalProperties' in this.#schema;
    const rest = this.#isClosed() ? this.#expressions.false : this.#expressions.true;
    const additional = hasRest ? this.#sub('additionalProperties') : rest;
    if (properties.size === 0 && patterns.length === 0 && additional === this.#expressions.true && !hasRest)
      return { tables: [], evaluated: ANY_OBJECT.evaluated };
    const table = { properties, patterns, additional };
    if (!this.#expressions.index.usesUnevaluated) return { tables: [table], evaluated: ANY_OBJECT.evaluated };
    const evaluated = {
      all: hasRest,
      names: [...properties.keys()],
      patterns: patterns.map(([pattern]) => pattern),
    };
    return { tables: [table], evaluated };
  }

  #reference(keyword: '$ref' | '$dynamicRef'): Values {
    return this.#about(keyword, () => {
      const reference = this.#schema[keyword];
      if (typeof reference !== 'string') return this.#refuse(`must be a string, got ${preview(reference)}`);
      const { index } = this.#expressions;
      const target =
        keyword === '$ref'
          ? index.resolve(this.#location, reference)
          : index.resolveDynamic(this.#location, reference);
      return this.#expand(this.#at(target, !this.#saysAll(keyword)));
    });
  }

  #allOf(): Values {
    const { budget } = this.#expressions;
    return this.#subs('allOf')
      .map((part) => this.#expand(part))
      .reduce((all, part) => intersection(all, part, budget), ANY_VALUES);
  }

  #anyOf(): Values {
    const parts = this.#subs('anyOf').map((part) => this.#expand(part));
    const { budget, index } = this.#expressions;
    if (!index.usesUnevaluated) return union(parts, budget);
    // Each branch that holds says more about what is evaluated.
    if (parts.length > MAX_COMBINED)
      this.#refuse(`has more than ${MAX_COMBINED} branches beside unevaluated keywords`);
    let combined: Values[] = [];
    for (const part of parts)
      combined = [...combined, part, ...combined.map((other) => intersection(other, part, budget))];
    return union(combined, budget);
  }

  #oneOf(): Values {
    const { budget } = this.#expressions;
    const parts = this.#subs('oneOf');
    // A value is one of the others, too, if only closing them would leave it out.
    const all = this.#list('oneOf').map((value, i) =>
      this.#expand(this.#at(this.#inside(value, `/oneOf/${i}`), true)),
    );
    const exactlyOne = parts.map((part, i) => {
      const own = this.#expand(part);
      const overlapping = all.filter(
        (other, j) => j !== i && !this.#expressions.areEmpty(intersection(own, other, budget)),
      );
      return overlapping.reduce(
        (left, other) => intersection(left, complement(other, this.#expressions), budget),
        own,
      );
    });
    return union(exactlyOne, budget);
  }

  #condition(): Values {
    const { budget } = this.#expressions;
    const hasThen = 'then' in this.#schema;
    const hasElse = 'else' in this.#schema;
    if (!hasThen && !hasElse && !this.#expressions.index.usesUnevaluated) return ANY_VALUES;
    const condition = this.#expand(this.#part('if'));
    const holds = hasThen ? intersection(condition, this.#expand(this.#part('then')), budget) : condition;
    const not = complement(condition, this.#expressions);
    const fails = hasElse ? intersection(not, this.#expand(this.#part('else')), budget) : not;
    return union([holds, fails], budget);
  }

  #dependentSchemas(keyword: string): Values {
    const { budget } = this.#expressions;
    let values = ANY_VALUES;
    for (const [name, value] of this.#named(keyword)) {
      if (Array.isArray(value)) continue;
      const schema = this.#expand(this.#part(keyword, value, `/${keyword}/${escapePointer(name)}`));
      const absent = {
        properties: new Map([[name, this.#expressions.false]]),
        patterns: [],
        additional: this.#expressions.true,
      };
      const without = { ...ANY_VALUES, objects: [{ ...ANY_OBJECT, tables: [absent] }] };
      const present = { ...NO_VALUES, objects: [{ ...ANY_OBJECT, required: [name] }] };
      const both = union([without, intersection(present, schema, budget)], budget);
      values = intersection(values, both, budget);
    }
    return values;
  }

  #unevaluatedProperties(values: Values): Values {
    const rest = this.#sub('unevaluatedProperties');
    const any = this.#expressions.true;
    const objects = values.objects.map((shape): ObjectShape => {
      const { all, names, patterns } = shape.evaluated;
      if (all) return shape;
      const table = {
        properties: new Map(names.map((name) => [name, any])),
        patterns: patterns.map((pattern) => [pattern, any] as const),
        additional: rest,
      };
      return { ...shape, tables: [...shape.tables, table], evaluated: { all: true, names, patterns } };
    });
    return { ...values, objects };
  }

  #unevaluatedItems(values: Values): Values {
    const rest = this.#sub('unevaluatedItems');
    const arrays = values.arrays.map((shape): ArrayShape => {
      if (shape.evaluatedPrefix === Number.MAX_SAFE_INTEGER) return shape;
      const prefix = Array.from({ length: shape.evaluatedPrefix }, () => this.#expressions.true);
      const item = shape.evaluatedItems.reduce(
        (either, matching) => this.#expressions.either(either, matching),
        rest,
      );
      return {
        ...shape,
        tables: [...shape.tables, { prefix, rest: item }],
        evaluatedPrefix: Number.MAX_SAFE_INTEGER,
      };
    });
    return { ...values, arrays };
  }
}

function stringsOf(dfa: Dfa | null): Values['strings'] {
  return dfa === null ? [] : [{ dfa, min: 0, max: null }];
}
