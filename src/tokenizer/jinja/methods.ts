// The methods that values have, as in Python; those that would change a value are left out, as in the sandbox.

import { type Builtin, builtin, integerOf, textOf } from './arguments.ts';
import { TemplateError } from './errors.ts';
import { formatText } from './format.ts';
import { checkedText, checkTextLength } from './limits.ts';
import {
  codePointCount,
  type Dict,
  hasSurrogates,
  isEqual,
  iterate,
  keyOf,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.ts';

type Methods = ReadonlyMap<string, Builtin>;

function methods(table: Readonly<Record<string, Builtin>>): Methods {
  return new Map(Object.entries(table));
}

/** A method without arguments. */
function plain(name: string, call: (text: string) => Value): Builtin {
  return builtin(`${name}()`, [], (self) => call(textOf(self, 'self')));
}

const SPACE = '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000';
const SPACES = new RegExp(`[${SPACE}]+`, 'g');
const IS_SPACE = new RegExp(`^[${SPACE}]$`);
const LINE_END = new RegExp(`\r\n|[${'\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029'}]`, 'g');

/** Both ends of `text` without any of the characters, white space where none are named. */
export function strip(text: string, chars: Value, ends: 'both' | 'left' | 'right' = 'both'): string {
  const set = chars === null ? null : new Set(textOf(chars, 'strip(): the characters'));
  const isStripped = (char: string): boolean => (set === null ? IS_SPACE.test(char) : set.has(char));
  const units = set !== null && hasSurrogates(text) ? [...text] : text;
  let start = 0;
  let end = units.length;
  if (ends !== 'right') while (start < end && isStripped(units[start]!)) start += 1;
  if (ends !== 'left') while (end > start && isStripped(units[end - 1]!)) end -= 1;
  return typeof units === 'string' ? units.slice(start, end) : units.slice(start, end).join('');
}

export function capitalize(text: string): string {
  const [first = ''] = text;
  return first.toUpperCase() + text.slice(first.length).toLowerCase();
}

export function replaceText(text: string, from: string, to: string, count: number): string {
  const pieces = from === '' ? emptyPieces(text) : text.split(from);
  const numReplaced = count < 0 ? pieces.length - 1 : Math.min(count, pieces.length - 1);
  checkTextLength(text.length + numReplaced * (to.length - from.length));
  if (numReplaced === pieces.length - 1) return pieces.join(to);
  return pieces.slice(0, numReplaced + 1).join(to) + from + pieces.slice(numReplaced + 1).join(from);
}

/** Around every character there is an empty text. */
function emptyPieces(text: string): string[] {
  return ['', ...text, ''];
}

function split(text: string, separator: Value, limit: number): string[] {
  if (separator === null) return splitAtSpace(text, limit);
  const mark = textOf(separator, 'split(): the separator');
  if (mark === '') throw new TemplateError('empty separator');
  const parts = text.split(mark);
  if (limit < 0 || parts.length <= limit + 1) return parts;
  return [...parts.slice(0, limit), parts.slice(limit).join(mark)];
}

function splitAtSpace(text: string, limit: number): string[] {
  const rest = strip(text, null, 'left');
  const parts: string[] = [];
  let position = 0;
  for (const space of rest.matchAll(SPACES)) {
    if (limit >= 0 && parts.length >= limit) break;
    parts.push(rest.slice(position, space.index));
    position = space.index + space[0].length;
  }
  if (position < rest.length) parts.push(rest.slice(position));
  return parts;
}

function splitFromRight(text: string, separator: Value, limit: number): string[] {
  if (limit < 0) return split(text, separator, limit);
  const reversed = (part: string): string => [...part].reverse().join('');
  const mark = separator === null ? null : reversed(textOf(separator, 'rsplit(): the separator'));
  return split(reversed(text), mark, limit).map(reversed).reverse();
}

export function splitLines(text: string, keepEnds: boolean): string[] {
  const lines: string[] = [];
  let position = 0;
  for (const end of text.matchAll(LINE_END)) {
    const next = end.index + end[0].length;
    lines.push(text.slice(position, keepEnds ? next : end.index));
    position = next;
  }
  if (position < text.length) lines.push(text.slice(position));
  return lines;
}

/** Whether `text` begins or ends with a text, or with one of a tuple. */
function affix(name: 'startswith' | 'endswith'): Builtin {
  return builtin(`${name}()`, ['affix', 'start', 'end'], (self, affixes = null, start = null, end = null) => {
    const text = sliceOf(textOf(self, 'self'), start, end);
    const wanted = Array.isArray(affixes) ? affixes : [affixes];
    return wanted.some((one) => {
      const part = textOf(one, `${name}(): the first argument`);
      return name === 'startswith' ? text.startsWith(part) : text.endsWith(part);
    });
  });
}

function sliceOf(text: string, start: Value, end: Value): string {
  if (start === null && end === null) return text;
  const from = start === null ? 0 : integerOf(start, 'start');
  const chars = hasSurrogates(text) ? [...text] : null;
  const to = end === null ? undefined : integerOf(end, 'end');
  return chars === null ? text.slice(from, to) : chars.slice(from, to).join('');
}

/** Index of a part of `text`: -1 where it is not there. */
function finder(name: string, search: (text: string, part: string) => number, mustBeThere = false): Builtin {
  return builtin(`${name}()`, ['sub', 'start', 'end'], (self, sub = null, start = null, end = null) => {
    const text = textOf(self, 'self');
    const from = start === null ? 0 : integerOf(start, 'start');
    const at = search(sliceOf(text, start, end), textOf(sub, `${name}(): the first argument`));
    if (at < 0 && mustBeThere) throw new TemplateError('substring not found');
    if (at < 0) return -1;
    const skipped = from < 0 ? Math.max(0, codePointCount(text) + from) : from;
    return skipped + codePointCount(sliceOf(text, start, end).slice(0, at));
  });
}

function count(text: string, part: string): number {
  return part === '' ? codePointCount(text) + 1 : text.split(part).length - 1;
}

function partition(name: string, find: (text: string, mark: string) => number): Builtin {
  return builtin(`${name}()`, ['sep'], (self, sep = null) => {
    const [text, mark] = [textOf(self, 'self'), textOf(sep, `${name}(): the separator`)];
    if (mark === '') throw new TemplateError('empty separator');
    const at = find(text, mark);
    if (at >= 0) return tuple(text.slice(0, at), mark, text.slice(at + mark.length));
    return name === 'partition' ? tuple(text, '', '') : tuple('', '', text);
  });
}

/** Fills up to a width; `place` says how much of the filling comes in front. */
function filler(name: string, place: (missing: number, width: number) => number): Builtin {
  return builtin(`${name}()`, ['width', 'fillchar'], (self, width = 0, fill = ' ') => {
    const text = textOf(self, 'self');
    return pad(text, integerOf(width, `${name}(): the width`), textOf(fill, 'fillchar'), place);
  });
}

export function pad(
  text: string,
  width: number,
  fill: string,
  place: (missing: number, width: number) => number,
): string {
  const missing = Math.max(0, width - codePointCount(text));
  checkTextLength(text.length + missing * fill.length);
  const before = place(missing, width);
  return fill.repeat(before) + text + fill.repeat(missing - before);
}

/** Half in front; an odd one in front where the width is odd. */
export const CENTER = (missing: number, width: number): number =>
  Math.floor(missing / 2) + (missing & width & 1);

/** Whether there are characters and all match. */
function every(name: string, pattern: RegExp): [string, Builtin] {
  return [name, plain(name, (text) => pattern.test(text))];
}

export function joinTexts(
  separator: string,
  items: Iterable<Value>,
  textOfItem: (item: Value) => string,
): string {
  let text: string | null = null;
  for (const item of items) {
    text = checkedText(text === null ? textOfItem(item) : text + separator + textOfItem(item));
  }
  return text ?? '';
}

export const TEXT_METHODS: Methods = new Map([
  ...methods({
    capitalize: plain('capitalize', capitalize),
    casefold: plain('casefold', (text) => text.toLowerCase().replaceAll('ß', 'ss')),
    center: filler('center', CENTER),
    count: builtin('count()', ['sub', 'start', 'end'], (self, sub = null, start = null, end = null) =>
      count(sliceOf(textOf(self, 'self'), start, end), textOf(sub, 'count(): the first argument')),
    ),
    endswith: affix('endswith'),
    find: finder('find', (text, part) => text.indexOf(part)),
    format: (self, args) => formatText(textOf(self, 'self'), args),
    index: finder('index', (text, part) => text.indexOf(part), true),
    islower: plain('islower', (text) => text !== text.toUpperCase() && text === text.toLowerCase()),
    isupper: plain('isupper', (text) => text !== text.toLowerCase() && text === text.toUpperCase()),
    join: builtin('join()', ['iterable'], (self, items = null) =>
      joinTexts(textOf(self, 'self'), iterate(items), (item) => textOf(item, 'join(): every item')),
    ),
    ljust: filler('ljust', () => 0),
    lower: plain('lower', (text) => text.toLowerCase()),
    lstrip: stripper('lstrip', 'left'),
    partition: partition('partition', (text, mark) => text.indexOf(mark)),
    removeprefix: builtin('removeprefix()', ['prefix'], (self, prefix = null) => {
      const [text, part] = [textOf(self, 'self'), textOf(prefix, 'removeprefix(): the prefix')];
      return text.startsWith(part) ? text.slice(part.length) : text;
    }),
    removesuffix: builtin('removesuffix()', ['suffix'], (self, suffix = null) => {
      const [text, part] = [textOf(self, 'self'), textOf(suffix, 'removesuffix(): the suffix')];
      return text.endsWith(part) ? text.slice(0, text.length - part.length) : text;
    }),
    replace: builtin(
      'replace()',
      ['old', 'new', 'count'],
      (self, old = null, replacement = null, limit = -1) =>
        replaceText(
          textOf(self, 'self'),
          textOf(old, 'replace(): the old text'),
          textOf(replacement, 'replace(): the new text'),
          integerOf(limit, 'replace(): the count'),
        ),
    ),
    rfind: finder('rfind', (text, part) => text.lastIndexOf(part)),
    rindex: finder('rindex', (text, part) => text.lastIndexOf(part), true),
    rjust: filler('rjust', (missing) => missing),
    rpartition: partition('rpartition', (text, mark) => text.lastIndexOf(mark)),
    rsplit: splitter('rsplit', splitFromRight),
    rstrip: stripper('rstrip', 'right'),
    split: splitter('split', split),
    splitlines: builtin('splitlines()', ['keepends'], (self, keepEnds = false) =>
      splitLines(textOf(self, 'self'), keepEnds === true),
    ),
    startswith: affix('startswith'),
    strip: stripper('strip', 'both'),
    swapcase: plain('swapcase', (text) =>
      text.replace(/\p{L}/gu, (char) =>
        char === char.toUpperCase() ? char.toLowerCase() : char.toUpperCase(),
      ),
    ),
    title: plain('title', (text) => text.replace(/\p{L}+/gu, capitalize)),
    upper: plain('upper', (text) => text.toUpperCase()),
    zfill: builtin('zfill()', ['width'], (self, width = 0) => {
      const [, sign = '', digits = ''] = /^([-+]?)(.*)$/s.exec(textOf(self, 'self')) ?? [];
      return (
        sign + pad(digits, integerOf(width, 'zfill(): the width') - sign.length, '0', (missing) => missing)
      );
    }),
  }),
  every('isalnum', /^[\p{L}\p{N}]+$/u),
  every('isalpha', /^\p{L}+$/u),
  every('isascii', /^\p{ASCII}*$/u),
  every('isdecimal', /^\p{Nd}+$/u),
  every('isdigit', /^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u),
  every('isnumeric', /^\p{N}+$/u),
  every('isspace', new RegExp(`^[${SPACE}]+$`)),
]);

function stripper(name: string, ends: 'both' | 'left' | 'right'): Builtin {
  return builtin(`${name}()`, ['chars'], (self, chars = null) => strip(textOf(self, 'self'), chars, ends));
}

function splitter(name: string, run: (text: string, separator: Value, limit: number) => string[]): Builtin {
  return builtin(`${name}()`, ['sep', 'maxsplit'], (self, separator = null, limit = -1) =>
    run(textOf(self, 'self'), separator, integerOf(limit, `${name}(): maxsplit`)),
  );
}

function dictOf(value: Value): Dict {
  if (value instanceof Map) return value;
  throw new TemplateError(`'${typeName(value)}' object is no mapping`);
}

export const DICT_METHODS: Methods = methods({
  copy: builtin('copy()', [], (self) => new Map(dictOf(self))),
  get: builtin('get()', ['key', 'default'], (self, key = null, fallback = null) => {
    const value = key instanceof Undefined ? undefined : dictOf(self).get(keyOf(key));
    return value === undefined ? fallback : value;
  }),
  items: builtin('items()', [], (self) => [...dictOf(self)].map(([key, value]) => tuple(key, value))),
  keys: builtin('keys()', [], (self) => [...dictOf(self).keys()]),
  values: builtin('values()', [], (self) => [...dictOf(self).values()]),
});

function listOf(value: Value): Value[] {
  if (Array.isArray(value)) return value;
  throw new TemplateError(`'${typeName(value)}' object is no list`);
}

export const LIST_METHODS: Methods = methods({
  copy: builtin('copy()', [], (self) => [...listOf(self)]),
  count: builtin(
    'count()',
    ['value'],
    (self, value = null) => listOf(self).filter((item) => isEqual(item, value)).length,
  ),
  index: builtin('index()', ['value'], (self, value = null) => {
    const at = listOf(self).findIndex((item) => isEqual(item, value));
    if (at < 0) throw new TemplateError('the value is not in the list');
    return at;
  }),
});
