// The filters of the language: the names after `|`. The original's for HTML pages and random choices are left out.

import { type Builtin, builtin, integerOf, textOf } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { defined } from './expressions.ts';
import { percentFormat } from './format.ts';
import { checkedText, checkLength, checkTextLength } from './limits.ts';
import { getAttribute, getItem } from './members.ts';
import { CENTER, capitalize, joinTexts, pad, replaceText, splitLines, strip } from './methods.ts';
import { plus } from './operators.ts';
import { print, toJson } from './print.ts';
import { predicate } from './tests.ts';
import {
  type Arguments,
  compare,
  Float,
  type Integer,
  integer,
  isEqual,
  isInteger,
  isTruthy,
  iterate,
  lengthOf,
  numberOf,
  orUndefined,
  Stream,
  tuple,
  typeName,
  Undefined,
  type Value,
  whole,
} from './values.ts';

function plain(name: string, call: (value: Value) => Value): [string, Builtin] {
  return named(name, [], call);
}

function named(
  name: string,
  parameters: readonly string[],
  call: (value: Value, ...args: (Value | undefined)[]) => Value,
): [string, Builtin] {
  return [name, builtin(`the filter ${name}`, parameters, call)];
}

function listOf(value: Value): Value[] {
  const items = [...iterate(value)];
  checkLength(items.length);
  return items;
}

/** The part of an item that `attribute='a.b.0'` selects; the item itself without an attribute. */
function picker(attribute: Value | undefined, fallback?: Value): (item: Value) => Value {
  if (attribute === undefined || attribute === null) return (item) => item;
  const path = String(attribute).split('.');
  const steps = path.map((part): Value => (/^\d+$/.test(part) ? Number(part) : part));
  return (item) => {
    let value = item;
    for (const step of steps) {
      value = getItem(value, step);
      // At each step: what lies behind a missing one is looked for in the fallback.
      if (value instanceof Undefined && fallback != null) value = fallback;
    }
    return value;
  };
}

/** Texts that differ in case only are alike, unless case matters. */
function caseKey(isCaseSensitive: Value | undefined): (value: Value) => Value {
  return isTruthy(isCaseSensitive ?? false)
    ? (value) => value
    : (value) => (typeof value === 'string' ? value.toLowerCase() : value);
}

function sorted(items: readonly Value[], keyOf: (item: Value) => Value, isReverse = false): Value[] {
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  keyed.sort((a, b) => (isReverse ? order(b.key, a.key) : order(a.key, b.key)));
  return keyed.map(({ item }) => item);
}

/** What is equal needs no order: a list of None is sorted. */
function order(left: Value, right: Value): number {
  return isEqual(left, right) ? 0 : compare(left, right);
}

/** By one attribute, or by several with commas between them. */
function sortKey(attribute: Value | undefined, caseSensitive: Value | undefined): (item: Value) => Value {
  const key = caseKey(caseSensitive);
  const picks =
    typeof attribute === 'string' ? attribute.split(',').map((path) => picker(path)) : [picker(attribute)];
  return (item) => tuple(...picks.map((pick) => key(pick(item))));
}

function first(value: Value): Value {
  for (const item of iterate(value)) return item;
  return new Undefined('there is no first item in an empty sequence');
}

function last(value: Value): Value {
  if (value instanceof Stream) throw new TemplateError("'generator' object is not reversible");
  return orUndefined([...iterate(value)].at(-1), 'there is no last item in an empty sequence');
}

function join(value: Value, separator: Value = '', attribute?: Value): Value {
  const pick = picker(attribute);
  return joinTexts(print(separator), iterate(value), (item) => print(pick(item)));
}

function indent(value: Value, width: Value = 4, isFirst: Value = false, isBlank: Value = false): Value {
  const text = textOf(value, 'the filter indent: the value');
  const by = typeof width === 'string' ? width : ' '.repeat(checkedWidth(width));
  const lines = splitLines(`${text}\n`, false);
  checkTextLength(text.length + lines.length * by.length);
  return lines
    .map((line, index) => {
      const isIndented = index === 0 ? isTruthy(isFirst) : line !== '' || isTruthy(isBlank);
      return isIndented ? by + line : line;
    })
    .join('\n');
}

function checkedWidth(width: Value): number {
  const spaces = Math.max(0, integerOf(width, 'the width'));
  checkTextLength(spaces);
  return spaces;
}

function toInteger(value: Value, fallback: Value = 0, base: Value = 10): Value {
  if (isInteger(value)) return value;
  const number = typeof value === 'string' ? parseInteger(strip(value, null), base) : numberOf(value);
  return number === null || !Number.isFinite(Number(number)) ? fallback : whole(number);
}

function parseInteger(text: string, base: Value): Integer | null {
  const digits = text.replaceAll('_', '');
  if (base !== 10) return Number.parseInt(digits.replace(/^0[xob]/i, ''), integerOf(base, 'the base'));
  return /^[+-]?\d+$/.test(digits) ? BigInt(digits) : toNumber(digits);
}

function toFloat(value: Value, fallback: Value = new Float(0)): Value {
  const number = typeof value === 'string' ? toNumber(strip(value, null)) : numberOf(value);
  return number === null ? fallback : new Float(number);
}

function toNumber(text: string): number | null {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
}

function round(value: Value, precision: Value = 0, method: Value = 'common'): Value {
  const number = numberOf(defined(value));
  if (number === null) throw new TemplateError(`a ${typeName(value)} cannot be rounded`);
  const numDigits = integerOf(precision, 'the precision');
  if (isInteger(value) && method === 'common' && numDigits >= 0) return value;
  const factor = 10 ** numDigits;
  const scaled = number * factor;
  if (method === 'ceil') return new Float(Math.ceil(scaled) / factor);
  if (method === 'floor') return new Float(Math.floor(scaled) / factor);
  if (method !== 'common') throw new TemplateError('the method of round must be common, ceil or floor');
  const rounded = halfToEven(scaled) / factor;
  return value instanceof Float ? new Float(rounded) : integer(Math.round(rounded));
}

function halfToEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

function dictItems(value: Value): Value[] {
  if (value instanceof Undefined) return [];
  if (value instanceof Map) return [...value].map(([key, item]) => tuple(key, item));
  throw new TemplateError('Can only get item pairs from a mapping.');
}

function dictSort(value: Value, caseSensitive?: Value, by: Value = 'key', reverse: Value = false): Value {
  if (by !== 'key' && by !== 'value') throw new TemplateError('dictsort: by must be key or value');
  const key = caseKey(caseSensitive);
  return sorted(dictItems(value), (item) => key(getItem(item, by === 'key' ? 0 : 1)), isTruthy(reverse));
}

function unique(value: Value, caseSensitive?: Value, attribute?: Value): Value {
  const [key, pick] = [caseKey(caseSensitive), picker(attribute)];
  const seen: Value[] = [];
  const plain = new Set<Value>();
  return listOf(value).filter((item) => {
    const id = key(pick(item));
    const isNew = typeof id === 'object' ? !seen.some((other) => isEqual(other, id)) : !plain.has(id);
    if (typeof id === 'object') seen.push(id);
    else plain.add(id);
    return isNew;
  });
}

function groupBy(value: Value, attribute?: Value, fallback?: Value, caseSensitive?: Value): Value {
  const [key, pick] = [caseKey(caseSensitive), picker(attribute, fallback)];
  const groups: { readonly key: Value; readonly name: Value; readonly items: Value[] }[] = [];
  for (const item of sorted(listOf(value), (one) => key(pick(one)))) {
    const id = key(pick(item));
    const group = groups.at(-1);
    if (group !== undefined && isEqual(group.key, id)) group.items.push(item);
    else groups.push({ key: id, name: pick(item), items: [item] });
  }
  return groups.map(({ name, items }) => tuple(name, items));
}

function sum(value: Value, attribute?: Value, start: Value = 0): Value {
  const pick = picker(attribute);
  let total = start;
  for (const item of iterate(value)) total = plus(total, pick(item));
  return total;
}

function extreme(name: string, sign: 1 | -1): [string, Builtin] {
  return named(name, ['case_sensitive', 'attribute'], (value, caseSensitive, attribute) => {
    const [key, pick] = [caseKey(caseSensitive), picker(attribute)];
    const [found] = sorted(listOf(value), (item) => key(pick(item)), sign < 0);
    return orUndefined(found, 'there is no item in an empty sequence');
  });
}

/** Rows of `size` items; the last one is filled up where there is something to fill it with. */
function batch(value: Value, size: Value = 1, fill?: Value): Value {
  const width = integerOf(size, 'the size of a batch');
  if (width < 1) throw new TemplateError('the size of a batch must be at least 1');
  const items = listOf(value);
  const rows: Value[] = [];
  for (let start = 0; start < items.length; start += width) {
    const row = items.slice(start, start + width);
    if (fill !== undefined && fill !== null) while (row.length < width) row.push(fill);
    checkLength(row.length);
    rows.push(row);
  }
  return rows;
}

/** `count` columns of about equal length. What there is to fill the shorter ones with ends all where they are equal. */
function slices(value: Value, count: Value = 1, fill?: Value): Value {
  const columns = integerOf(count, 'the number of slices');
  if (columns < 1) throw new TemplateError('the number of slices must be at least 1');
  checkLength(columns);
  const items = listOf(value);
  const [length, longer] = [Math.floor(items.length / columns), items.length % columns];
  let start = 0;
  return Array.from({ length: columns }, (_, column): Value => {
    const end = start + length + (column < longer ? 1 : 0);
    const slice = items.slice(start, end);
    start = end;
    if (fill !== undefined && fill !== null && column >= longer) slice.push(fill);
    return slice;
  });
}

/** What select, map and their like go through: nothing where the value is false, None among others. */
function itemsOf(value: Value): Iterable<Value> {
  return isTruthy(value) ? iterate(value) : [];
}

/** Items by a test of theirs or of an attribute, as they are read. */
function selection(name: string, isAttribute: boolean, isSelected: boolean): [string, Builtin] {
  return [
    name,
    (value, { positional }) => {
      const pick = isAttribute ? picker(positional[0]) : (item: Value) => item;
      const [testName, ...args] = isAttribute ? positional.slice(1) : positional;
      const holds = testName === undefined ? isTruthy : predicate(testName, args);
      return new Stream(where(itemsOf(value), (item) => holds(pick(item)) === isSelected));
    },
  ];
}

function* where(items: Iterable<Value>, isWanted: (item: Value) => boolean): Generator<Value> {
  for (const item of items) if (isWanted(item)) yield item;
}

/** map('filter', ...) or map(attribute='name', default=...). */
function map(value: Value, args: Arguments): Value {
  return new Stream(mapped(itemsOf(value), mapper(args)));
}

function mapper({ positional, keywords }: Arguments): (item: Value) => Value {
  const [name, ...rest] = positional;
  if (name === undefined) {
    const attribute = keywords.get('attribute');
    if (attribute === undefined) throw new TemplateError('map needs a filter or an attribute');
    return picker(attribute, keywords.get('default'));
  }
  const filter = FILTERS.get(String(name));
  if (filter === undefined) throw new TemplateError(`there is no filter ${print(name)}`);
  const given = { positional: rest, keywords };
  return (item) => filter(item, given);
}

function* mapped(items: Iterable<Value>, change: (item: Value) => Value): Generator<Value> {
  for (const item of items) yield change(item);
}

/** As json.dumps() of Python, without its escapes of characters outside of ASCII. */
function json(
  value: Value,
  ensureAscii: Value = false,
  indent: Value = null,
  separators: Value = null,
  sortKeys: Value = false,
): Value {
  const step =
    indent === null ? null : typeof indent === 'string' ? indent : ' '.repeat(checkedWidth(indent));
  const [item, key] = separators === null ? [step === null ? ', ' : ',', ': '] : listOf(separators);
  return toJson(value, {
    ensureAscii: isTruthy(ensureAscii),
    indent: step,
    itemSeparator: textOf(item ?? null, 'tojson: the separator of items'),
    keySeparator: textOf(key ?? null, 'tojson: the separator of keys'),
    sortKeys: isTruthy(sortKeys),
  });
}

function fallback(value: Value, instead: Value = '', isForFalse: Value = false): Value {
  return value instanceof Undefined || (isTruthy(isForFalse) && !isTruthy(value)) ? instead : value;
}

function truncate(
  value: Value,
  size: Value = 255,
  cut: Value = false,
  end: Value = '...',
  leeway: Value = 5,
): Value {
  const chars = [...print(value)];
  const length = integerOf(size, 'the length');
  const mark = textOf(end, 'the end');
  if (chars.length <= length + integerOf(leeway, 'the leeway')) return print(value);
  const kept = chars.slice(0, Math.max(0, length - mark.length)).join('');
  const space = kept.lastIndexOf(' ');
  return (isTruthy(cut) || space < 0 ? kept : kept.slice(0, space)) + mark;
}

const HTML: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};

function escapeHtml(value: Value): Value {
  return checkedText(print(value).replace(/[&<>"']/g, (char) => HTML[char] ?? char));
}

/** All but letters, digits and `_.-~/` of ASCII. */
function urlEncode(value: Value): Value {
  const quoted = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(print(value))
    .replaceAll('%2F', '/')
    .replace(/[!'()*]/g, quoted);
}

function titleCase(value: Value): Value {
  return print(value)
    .split(/([-\s({[<]+)/)
    .map(capitalize)
    .join('');
}

function reverse(value: Value): Value {
  return typeof value === 'string' ? [...value].reverse().join('') : listOf(value).reverse();
}

/** Filters of the original that are left out. */
export const FILTERS_NOT_SERVED: readonly string[] = [
  'filesizeformat',
  'pprint',
  'random',
  'striptags',
  'urlize',
  'wordwrap',
  'xmlattr',
];

export const FILTERS: ReadonlyMap<string, Builtin> = new Map<string, Builtin>([
  plain('abs', (value) => {
    const number = numberOf(defined(value));
    if (number === null) throw new TemplateError(`bad operand type for abs(): '${typeName(value)}'`);
    if (typeof value === 'bigint') return value < 0n ? -value : value;
    return value instanceof Float ? new Float(Math.abs(number)) : Math.abs(number);
  }),
  named('attr', ['name'], (value, name = '') => getAttribute(value, textOf(name, 'attr: the name'))),
  named('batch', ['linecount', 'fill_with'], batch),
  plain('capitalize', (value) => capitalize(print(value))),
  named('center', ['width'], (value, width = 80) =>
    pad(print(value), integerOf(width, 'center: the width'), ' ', CENTER),
  ),
  plain('count', lengthOf),
  named('d', ['default_value', 'boolean'], fallback),
  named('default', ['default_value', 'boolean'], fallback),
  named('dictsort', ['case_sensitive', 'by', 'reverse'], dictSort),
  plain('e', escapeHtml),
  plain('escape', escapeHtml),
  plain('first', first),
  named('float', ['default'], toFloat),
  plain('forceescape', escapeHtml),
  ['format', (value, args) => percentFormat(print(value), formatValues(args))],
  named('groupby', ['attribute', 'default', 'case_sensitive'], groupBy),
  named('indent', ['width', 'first', 'blank'], indent),
  named('int', ['default', 'base'], toInteger),
  plain('items', (value) => new Stream(dictItems(value).values())),
  named('join', ['d', 'attribute'], join),
  plain('last', last),
  plain('length', lengthOf),
  plain('list', listOf),
  plain('lower', (value) => print(value).toLowerCase()),
  ['map', map],
  extreme('max', -1),
  extreme('min', 1),
  selection('reject', false, false),
  selection('rejectattr', true, false),
  named('replace', ['old', 'new', 'count'], (value, old = '', replacement = '', count = null) =>
    replaceText(
      print(value),
      print(old),
      print(replacement),
      count === null ? -1 : integerOf(count, 'count'),
    ),
  ),
  plain('reverse', reverse),
  named('round', ['precision', 'method'], round),
  plain('safe', (value) => print(value)),
  selection('select', false, true),
  selection('selectattr', true, true),
  named('slice', ['slices', 'fill_with'], slices),
  named('sort', ['reverse', 'case_sensitive', 'attribute'], (value, isReverse, caseSensitive, attribute) => {
    return sorted(listOf(value), sortKey(attribute, caseSensitive), isTruthy(isReverse ?? false));
  }),
  plain('string', print),
  named('sum', ['attribute', 'start'], sum),
  plain('title', titleCase),
  named('tojson', ['ensure_ascii', 'indent', 'separators', 'sort_keys'], json),
  named('trim', ['chars'], (value, chars = null) => strip(print(value), chars)),
  named('truncate', ['length', 'killwords', 'end', 'leeway'], truncate),
  named('unique', ['case_sensitive', 'attribute'], unique),
  plain('upper', (value) => print(value).toUpperCase()),
  plain('urlencode', urlEncode),
  plain('wordcount', (value) => print(value).match(/[\p{L}\p{M}\p{N}_]+/gu)?.length ?? 0),
]);

function formatValues({ positional, keywords }: Arguments): Value {
  return keywords.size > 0 ? new Map(keywords) : tuple(...positional);
}
