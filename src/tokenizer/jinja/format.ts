// Texts with places for values: `'%s' % value` and `'{}'.format(value)`.

import { TemplateError } from './errors.ts';
import { checkedText, checkTextLength } from './limits.ts';
import { print, repr } from './print.ts';
import {
  type Arguments,
  Float,
  type Integer,
  numberOf,
  Tuple,
  typeName,
  type Value,
  whole,
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
  if (kind === 's' || kind === 'r') {
    const text = kind === 's' ? print(value) : repr(value);
    return precision === null ? text : [...text].slice(0, precision).join('');
  }
  const number = typeof value === 'bigint' ? value : numberOf(value);
  if (number === null) {
    throw new TemplateError(`%${kind} format: a real number is required, not ${typeName(value)}`);
  }
  const sign = number < 0 ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
  return sign + digits(number < 0 ? -number : number, kind, Math.min(100, precision ?? 6));
}

const DIGITS: Readonly<Record<string, (number: Integer, precision: number) => string>> = {
  d: (number) => String(whole(number)),
  f: (number, precision) => Number(number).toFixed(precision),
  e: (number, precision) =>
    Number(number)
      .toExponential(precision)
      .replace(/e([+-])(\d)$/, 'e$10$2'),
  x: (number) => whole(number).toString(16),
  X: (number) => whole(number).toString(16).toUpperCase(),
  o: (number) => whole(number).toString(8),
};
const SAME_KINDS: Readonly<Record<string, string>> = { i: 'd', u: 'd', F: 'f' };

function digits(number: Integer, kind: string, precision: number): string {
  const write = DIGITS[SAME_KINDS[kind] ?? kind];
  if (write === undefined) throw new TemplateError(`the format %${kind} is not served`);
  return write(number, precision);
}

function filled(text: string, flags: string, width: number): string {
  checkTextLength(width);
  if (flags.includes('-')) return text.padEnd(width);
  if (!flags.includes('0')) return text.padStart(width);
  const sign = /^[-+ ]?/.exec(text)?.[0] ?? '';
  return sign + text.slice(sign.length).padStart(width - sign.length, '0');
}

/** str.format() with {}, {0} and {name}, and after a colon the precision of a number: {:.2f}. */
export function formatText(text: string, args: Arguments): string {
  let next = 0;
  const formatted = text.replace(
    /\{\{|\}\}|\{(\w*)(?::([^{}]*))?\}|[{}]/g,
    (whole, name?: string, spec = '') => {
      if (whole === '{{' || whole === '}}') return whole.slice(1);
      if (name === undefined) throw new TemplateError(`format(): a single ${whole} in the text`);
      const value =
        name === '' || /^\d+$/.test(name) ? args.positional[Number(name || next++)] : args.keywords.get(name);
      if (value === undefined) throw new TemplateError(`format() has no argument for {${name}}`);
      return formatted1(value, spec);
    },
  );
  return checkedText(formatted);
}

function formatted1(value: Value, spec: string): string {
  if (spec === '') return print(value);
  const parsed = /^(0?)(\d*)(?:\.(\d+))?([dfsx]?)$/.exec(spec);
  if (parsed === null) throw new TemplateError(`the format {:${spec}} is not served`);
  const [, zero = '', width = '', precision, kind = ''] = parsed;
  const chosen = kind !== '' ? kind : value instanceof Float ? 'f' : typeof value === 'string' ? 's' : 'd';
  const shown = percentValue(value, chosen, '', precision === undefined ? null : Number(precision));
  return filled(shown, typeof value === 'string' ? '-' : zero, Number(width));
}
