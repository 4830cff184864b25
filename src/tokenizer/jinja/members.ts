// What `value.name`, `value[key]` and `value[start:stop:step]` give.

import type { Builtin } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { DICT_METHODS, LIST_METHODS, TEXT_METHODS } from './methods.ts';
import { repr } from './print.ts';
import {
  hasSurrogates,
  isAttributes,
  type Key,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

/** A method comes before a key of the same name, as in the original. */
export function getAttribute(value: Value, name: string): Value {
  const found = member(value, name);
  const other = found === undefined && value instanceof Map ? value.get(name) : found;
  return other === undefined ? missing(value, name) : other;
}

/** A key comes before a method of the same name. */
export function getItem(value: Value, key: Value): Value {
  const found = element(value, key);
  const other = found === undefined && typeof key === 'string' ? member(value, key) : found;
  return other === undefined ? missing(value, key) : other;
}

function member(value: Value, name: string): Value | undefined {
  if (isAttributes(value)) return value.attribute(name);
  const method = methodsOf(value)?.get(name);
  return method === undefined ? undefined : (args) => method(value, args);
}

function methodsOf(value: Value): ReadonlyMap<string, Builtin> | null {
  if (typeof value === 'string') return TEXT_METHODS;
  if (value instanceof Map) return DICT_METHODS;
  return Array.isArray(value) ? LIST_METHODS : null;
}

function element(value: Value, key: Value): Value | undefined {
  if (value instanceof Map)
    return isKey(key) ? value.get(typeof key === 'boolean' ? Number(key) : key) : undefined;
  const index = typeof key === 'boolean' ? Number(key) : key;
  if (typeof index !== 'number') return undefined;
  if (typeof value === 'string') return characters(value).at(index);
  return Array.isArray(value) ? value.at(index) : undefined;
}

function isKey(value: Value): value is Key {
  return value === null || (typeof value !== 'object' && typeof value !== 'function');
}

/** @throws TemplateError where there is not even a value to look into. */
function missing(value: Value, name: Value): Undefined {
  if (value instanceof Undefined) throw new TemplateError(value.reason);
  const owner = value === null ? 'None' : `${typeName(value)} object`;
  const what = typeof name === 'string' ? `attribute ${repr(name)}` : `element ${repr(name)}`;
  return new Undefined(`'${owner}' has no ${what}`);
}

/** Something with a length, cut by code units where that is the same as by characters. */
function characters(text: string): string | string[] {
  return hasSurrogates(text) ? [...text] : text;
}

export function getSlice(value: Value, start: Value, stop: Value, step: Value): Value {
  if (value instanceof Undefined) throw new TemplateError(value.reason);
  if (typeof value !== 'string' && !Array.isArray(value)) {
    throw new TemplateError(`'${typeName(value)}' object is not subscriptable`);
  }
  const [from, to, by] = [bound(start), bound(stop), bound(step) ?? 1];
  if (typeof value !== 'string') return cut(value, from, to, by);
  const chars = characters(value);
  if (by === 1 && typeof chars === 'string') return chars.slice(from ?? 0, to ?? undefined);
  return [...cut([...chars], from, to, by)].join('');
}

function bound(value: Value): number | null {
  if (value === null) return null;
  const index = typeof value === 'object' ? null : numberOf(value);
  if (index === null) throw new TemplateError('slice indices must be integers or None');
  return index;
}

function cut(items: Value[], start: number | null, stop: number | null, step: number): Value[] {
  if (step === 1) return items.slice(start ?? 0, stop ?? undefined);
  if (step === 0) throw new TemplateError('slice step cannot be zero');
  const { length } = items;
  const least = step > 0 ? 0 : -1;
  const most = step > 0 ? length : length - 1;
  const place = (index: number): number =>
    Math.min(most, Math.max(least, index < 0 ? index + length : index));
  const from = start === null ? (step > 0 ? 0 : length - 1) : place(start);
  const to = stop === null ? (step > 0 ? length : -1) : place(stop);
  const picked = items instanceof Tuple ? items.slice(0, 0) : [];
  for (let index = from; step > 0 ? index < to : index > to; index += step) picked.push(items[index]!);
  return picked;
}
