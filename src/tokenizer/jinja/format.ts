// Texts with places for values: `'%s' % value` and `'{}'.format(value)`.

import { TemplateError } from './errors.ts';
import { checkedText, checkTextLength } from './limits.ts';
import { digitsOf } from './number-format.ts';
import { print, repr } from './print.ts';
import {
  type Arguments,
  codePointCount,
  Float,
  type Integer,
  numberOf,
  Tuple,
  typeName,
  type Value,
} from './values.ts';

/** `%` with the values of a tuple, of a dict by name, or one value. */
export function percentFormat(text: string, values: Value): string {
  const rest: Value[] = values instanceof Tuple ? [...values] : [values];
  const named = values instanceof Map ? values : null;
  const place = /%(?:\((.*?)\))?([-+ 0#]*)(\d+|\*)?(?:\.(\d+))?([a-zA-Z%])/g;
  const formatted = text.replace(
    place,
    (_, name?: string, flags = '', width = '0', precision?: string, kind = '') => {
      if (kind === '%') return '%';
      const value = name === undefined ? rest.shift() : named?.get(name);
      if (value === undefined) throw new TemplateError('not enough arguments for format string');
      const shown = percentValue(value, kind, flags, precision === undefined ? null : Number(precision));
      return filled(shown, flags, Number(width));
    },
  );
  if (named === null && rest.length > 0) {
    throw new TemplateError('not all arguments converted during string formatting');
  }
  return checkedText(formatted);
}

function percentValue(value: Value, kind: string, flags: string, precision: number | null): string {
  if (kind === 's' || kind === 'r') return cut(kind === 's' ? print(value) : repr(value), precision);
  if (kind === 'c') return character(value);
  const number = typeof value === 'bigint' ? value : numberOf(value);
  if (number === null) {
    throw new TemplateError(`%${kind} format: a real number is required, not ${typeName(value)}`);
  }
  return signed(number, SAME_KINDS[kind] ?? kind, flags, precision, `%${kind}`);
}

const SAME_KINDS: Readonly<Record<string, string>> = { i: 'd', u: 'd' };

/** A text's first characters. */
function cut(text: string, length: number | null): string {
  return length === null ? text : [...text].slice(0, length).join('');
}

function character(value: Value): string {
  if (typeof value === 'string' && codePointCount(value) === 1) return value;
  if (typeof value === 'number' && value >= 0 && value <= 0x10ffff) return String.fromCodePoint(value);
  throw new TemplateError('%c requires an int in range(0x110000) or a unicode character');
}

/** @param flags + or a space stand before numbers that are not negative */
function signed(
  number: Integer,
  kind: string,
  flags: string,
  precision: number | null,
  format: string,
): string {
  const digits = digitsOf(number < 0 ? -number : number, kind, precision ?? undefined);
  if (digits === null) throw new TemplateError(`the format ${format} is not served`);
  const isNegative = number < 0 || (Object.is(number, -0) && 'efg'.includes(kind.toLowerCase()));
  return (isNegative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '') + digits;
}

function filled(text: string, flags: string, width: number): string {
  checkTextLength(width);
  if (flags.includes('-')) return text.padEnd(width);
  if (!flags.includes('0')) return text.padStart(width);
  const sign = /^[-+ ]?/.exec(text)?.[0] ?? '';
  return sign + text.slice(sign.length).padStart(width - sign.length, '0');
}

/** str.format() with {}, {0} and {name}; behind a ! how the value becomes a text, and behind a colon how that is written. */
export function formatText(text: string, args: Arguments): string {
  let next = 0;
  const formatted = text.replace(
    /\{\{|\}\}|\{([^{}!:]*)(?:!(\w))?(?::([^{}]*))?\}|[{}]/g,
    (whole, name?: string, conversion?: string, spec = '') => {
      if (whole === '{{' || whole === '}}') return whole.slice(1);
      if (name === undefined) throw new TemplateError(`format(): a single ${whole} in the text`);
      if (!/^\w*$/.test(name)) {
        throw new TemplateError(`the field {${name}} of format() is not served; {}, {0} and {name} are`);
      }
      const value =
        name === '' || /^\d+$/.test(name) ? args.positional[Number(name || next++)] : args.keywords.get(name);
      if (value === undefined) throw new TemplateError(`format() has no argument for {${name}}`);
      return written(converted(value, conversion), spec);
    },
  );
  return checkedText(formatted);
}

function converted(value: Value, conversion: string | undefined): Value {
  if (conversion === undefined) return value;
  if (conversion === 's') return print(value);
  if (conversion === 'r') return repr(value);
  throw new TemplateError(`the conversion !${conversion} of format() is not served; !s and !r are`);
}

/** Filling and alignment, sign, zeros, width, thousands, precision, kind. */
const SPEC = /^(?:(.)?([<>=^]))?([-+ ]?)(0?)(\d*)(,?)(?:\.(\d+))?([a-zA-Z%]?)$/su;

function written(value: Value, spec: string): string {
  if (spec === '') return print(value);
  const parsed = SPEC.exec(spec);
  if (parsed === null) throw notServed(spec);
  const [, fill, align, sign = '', zero, width = '', comma, digits, kind = ''] = parsed;
  const precision = digits === undefined ? null : Number(digits);
  const isText = typeof value === 'string';
  const shown = isText ? textBy(value, kind, precision) : numberBy(value, kind, sign, precision, spec);
  if (shown === null || (zero && comma)) throw notServed(spec);
  const grouped = comma ? shown.replace(/^\D*\d+/, withThousands) : shown;
  const place = align ?? (isText ? '<' : zero ? '=' : '>');
  return aligned(grouped, fill ?? (zero || ' '), place, Number(width));
}

function notServed(spec: string): TemplateError {
  return new TemplateError(`the format {:${spec}} is not served`);
}

function textBy(text: string, kind: string, precision: number | null): string | null {
  return kind === 's' || kind === '' ? cut(text, precision) : null;
}

function numberBy(
  value: Value,
  kind: string,
  sign: string,
  precision: number | null,
  spec: string,
): string | null {
  const number = typeof value === 'bigint' ? value : numberOf(value);
  if (number === null) {
    throw new TemplateError(`unsupported format string passed to ${typeName(value)}.__format__`);
  }
  if (kind === '%') return `${signed(Number(number) * 100, 'f', sign, precision, `{:${spec}}`)}%`;
  if (!(value instanceof Float)) return signed(number, kind || 'd', sign, precision, `{:${spec}}`);
  if (kind !== '') return /[efg]/i.test(kind) ? signed(number, kind, sign, precision, `{:${spec}}`) : null;
  return precision === null ? (number >= 0 ? sign.replace('-', '') : '') + print(value) : null;
}

function withThousands(whole: string): string {
  return whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** @param place = is between the sign of a number and its digits */
function aligned(text: string, fill: string, place: string, width: number): string {
  checkTextLength(width);
  const missing = Math.max(0, width - codePointCount(text));
  const sign = place === '=' ? (/^[-+ ]/.exec(text)?.[0] ?? '') : '';
  const before = { '<': 0, '^': Math.floor(missing / 2) }[place] ?? missing;
  return sign + fill.repeat(before) + text.slice(sign.length) + fill.repeat(missing - before);
}
