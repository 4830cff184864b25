// The values of a template, which are Python's: truth, equality, order, numbers and sequences.
//
//   None  null          list   array            a name that nothing has   Undefined
//   bool  boolean       tuple  Tuple            result of map, select...  Stream
//   int   number        dict   Map              function, macro, method   Callable
//   float Float         str    string, of code points where it is counted or cut

import { TemplateError } from './errors.ts';

export type Value =
  | null
  | boolean
  | Integer
  | string
  | Float
  | Undefined
  | Value[]
  | Dict
  | Stream
  | Attributes
  | Callable;

/** A whole number of any size: a number where it is safe, a bigint beyond. `integer` makes it. */
export type Integer = number | bigint;
export type Key = null | boolean | Integer | string;
export type Dict = Map<Key, Value>;
export type Callable = (args: Arguments) => Value;

/** What a function, a filter, a test or a method is called with. */
export interface Arguments {
  readonly positional: readonly Value[];
  readonly keywords: ReadonlyMap<string, Value>;
}

/** A number that Python would print with a point, whole or not. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/** Prints as nothing, is false and empty; whatever else is done with it fails with `reason`. */
export class Undefined {
  readonly reason: string;
  constructor(reason: string) {
    this.reason = reason;
  }
}

/** `value`, or the Undefined of templates where there is no value. None is a value. */
export function orUndefined(value: Value | undefined, reason: string): Value {
  return value === undefined ? new Undefined(reason) : value;
}

export class Tuple extends Array<Value> {}

/** What select, map and the like give: made as it is read, and read only once. */
export class Stream {
  readonly #source: Iterator<Value>;
  constructor(source: Iterator<Value>) {
    this.#source = source;
  }
  [Symbol.iterator](): Iterator<Value> {
    return this.#source;
  }
}

/** A value with attributes and no elements: `loop`, a namespace, a cycler. */
export interface Attributes {
  readonly kind: 'Namespace' | 'LoopContext' | 'Cycler';
  attribute(name: string): Value | undefined;
}

export class Namespace implements Attributes {
  readonly kind = 'Namespace';
  readonly fields: Dict;
  constructor(fields: Dict) {
    this.fields = fields;
  }
  attribute(name: string): Value | undefined {
    return this.fields.get(name);
  }
}

/** `value`, which is whole, in the one form that it has. */
export function integer(value: Integer): Integer {
  const number = Number(value);
  // There is no negative zero among whole numbers.
  if (Number.isSafeInteger(number)) return number === 0 ? 0 : number;
  return BigInt(value);
}

/** `number` without what is behind its point. */
export function whole(number: Integer): Integer {
  return integer(typeof number === 'number' ? Math.trunc(number) : number);
}

export function isInteger(value: Value): value is Integer {
  return typeof value === 'number' || typeof value === 'bigint';
}

export function tuple(...items: readonly Value[]): Tuple {
  const made = new Tuple();
  for (const item of items) made.push(item);
  return made;
}

export function isAttributes(value: Value): value is Attributes {
  return typeof value === 'object' && value !== null && 'attribute' in value;
}

export function isTruthy(value: Value): boolean {
  if (typeof value === 'string' || Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Undefined) return false;
  return typeof value === 'object' ? value !== null : Boolean(value);
}

/** The double nearest to the number that `value` is, a bool counted as 0 or 1; null where it is not a number. */
export function numberOf(value: Value): number | null {
  if (isInteger(value)) return Number(value);
  if (value instanceof Float) return value.value;
  return typeof value === 'boolean' ? Number(value) : null;
}

export function isEqual(left: Value, right: Value): boolean {
  if (left === right) return true;
  const [a, b] = [numberOf(left), numberOf(right)];
  if (typeof left === 'bigint' && typeof right === 'bigint') return false;
  if (a !== null || b !== null) return a === b;
  if (Array.isArray(left) && Array.isArray(right)) {
    if (left.length !== right.length || left instanceof Tuple !== right instanceof Tuple) return false;
    return left.every((item, index) => isEqual(item, right[index]!));
  }
  if (left instanceof Map && right instanceof Map) {
    if (left.size !== right.size) return false;
    return [...left].every(([key, item]) => right.has(key) && isEqual(item, right.get(key)!));
  }
  return left instanceof Undefined && right instanceof Undefined;
}

/** Negative, zero or positive as `left` is less than, equal to or greater than `right`. */
export function compare(left: Value, right: Value, operator = '<'): number {
  if (typeof left === 'bigint' && typeof right === 'bigint') return left < right ? -1 : Number(left > right);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== null && b !== null) return a - b;
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  if (Array.isArray(left) && Array.isArray(right) && left instanceof Tuple === right instanceof Tuple) {
    const differing = left.findIndex((item, index) => index >= right.length || !isEqual(item, right[index]!));
    if (differing < 0 || differing >= right.length) return left.length - right.length;
    return compare(left[differing]!, right[differing]!, operator);
  }
  throw new TemplateError(
    `'${operator}' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`,
  );
}

/** By code points: UTF-16 order would put the astral planes before U+E000. */
function compareText(left: string, right: string): number {
  if (left === right) return 0;
  if (!hasSurrogates(left) && !hasSurrogates(right)) return left < right ? -1 : 1;
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** The elements of a value that can be looped over: of a text its characters, of a dict its keys. */
export function iterate(value: Value): Iterable<Value> {
  if (Array.isArray(value) || typeof value === 'string' || value instanceof Stream) return value;
  if (value instanceof Map) return value.keys();
  if (value instanceof Undefined) return [];
  throw new TemplateError(`'${typeName(value)}' object is not iterable`);
}

export function lengthOf(value: Value): number {
  if (typeof value === 'string') return codePointCount(value);
  if (Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  if (value instanceof Undefined) return 0;
  throw new TemplateError(`object of type '${typeName(value)}' has no len()`);
}

export function keyOf(value: Value): Key {
  if (value instanceof Float) return value.value;
  if (typeof value === 'boolean') return Number(value);
  if (value === null || isInteger(value) || typeof value === 'string') return value;
  throw new TemplateError(`unhashable type: '${typeName(value)}'`);
}

const SURROGATE = /[\ud800-\udfff]/;

export function hasSurrogates(text: string): boolean {
  return SURROGATE.test(text);
}

export function codePointCount(text: string): number {
  if (!hasSurrogates(text)) return text.length;
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** What Python calls the type of `value`, for messages. */
export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (isInteger(value)) return 'int';
  if (typeof value === 'string') return 'str';
  if (typeof value === 'function') return 'function';
  if (value instanceof Float) return 'float';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Tuple) return 'tuple';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  return value instanceof Stream ? 'generator' : value.kind;
}

/** JSON as the request brought it, see `parseExactJson`; a number that is not whole becomes a float. */
export function fromJson(json: unknown): Value {
  if (json === null || typeof json === 'string' || typeof json === 'boolean') return json;
  if (typeof json === 'bigint') return integer(json);
  if (typeof json === 'number') return Number.isInteger(json) ? integer(json) : new Float(json);
  if (json instanceof Number) return new Float(json.valueOf());
  if (Array.isArray(json)) return json.map(fromJson);
  if (typeof json === 'object') {
    const dict: Dict = new Map();
    for (const [key, value] of Object.entries(json)) if (value !== undefined) dict.set(key, fromJson(value));
    return dict;
  }
  throw new TemplateError(`a ${typeof json} cannot be given to a template`);
}
