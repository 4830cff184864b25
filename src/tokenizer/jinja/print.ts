// Values as text: as Python's str() and repr() print them, and as json.dumps() writes them.

import { TemplateError } from './errors.ts';
import { checkedText } from './limits.ts';
import { type Dict, Float, isInteger, Namespace, Tuple, typeName, Undefined, type Value } from './values.ts';

/** str(): what `{{ value }}` puts into the output. */
export function print(value: Value): string {
  if (typeof value === 'string') return value;
  if (value instanceof Undefined) return '';
  return repr(value);
}

export function repr(value: Value): string {
  if (typeof value === 'string') return quote(value);
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (isInteger(value)) return String(value);
  if (value instanceof Float) return printFloat(value.value);
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Tuple) {
    return checkedText(`(${value.map(repr).join(', ')}${value.length === 1 ? ',' : ''})`);
  }
  if (Array.isArray(value)) return checkedText(`[${value.map(repr).join(', ')}]`);
  if (value instanceof Map) return printDict(value);
  if (value instanceof Namespace) return `<Namespace ${printDict(value.fields)}>`;
  return `<${typeName(value)}>`;
}

function printDict(dict: Dict): string {
  const entries = [...dict].map(([key, value]) => `${repr(key)}: ${repr(value)}`);
  return checkedText(`{${entries.join(', ')}}`);
}

/** Python writes an exponent below 1e-4 and from 1e16 on, of two digits at least. */
function printFloat(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) {
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  }
  if (Number.isInteger(value)) return `${Object.is(value, -0) ? '-0' : value}.0`;
  return String(value);
}

const QUOTE_ESCAPES: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\\': '\\\\',
};

function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(/[\\'\n\r\t]|[\p{C}\p{Z}]/gu, (char) => {
    if (char === ' ') return char;
    if (char === "'") return mark === "'" ? "\\'" : char;
    return QUOTE_ESCAPES[char] ?? hexEscape(char);
  });
  return `${mark}${escaped}${mark}`;
}

function hexEscape(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`;
  if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

interface JsonOptions {
  readonly ensureAscii: boolean;
  /** What one level is indented by; null writes one line. */
  readonly indent: string | null;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortKeys: boolean;
}

/** What json.dumps() does, but that characters beyond ASCII are themselves. */
const ONE_LINE: JsonOptions = {
  ensureAscii: false,
  indent: null,
  itemSeparator: ', ',
  keySeparator: ': ',
  sortKeys: false,
};

export function toJson(value: Value, options = ONE_LINE, newline = '\n'): string {
  if (typeof value === 'string') return jsonText(value, options);
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (isInteger(value)) return String(value);
  if (value instanceof Float) return jsonFloat(value.value);
  const inner = newline + (options.indent ?? '');
  if (Array.isArray(value)) {
    const items = value.map((item) => toJson(item, options, inner));
    return wrap('[', items, ']', options, newline);
  }
  if (value instanceof Map) {
    const entries = [...value].map(([key, item]): [string, Value] => [
      typeof key === 'string' ? key : toJson(key, options),
      item,
    ]);
    if (options.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const items = entries.map(
      ([key, item]) => jsonText(key, options) + options.keySeparator + toJson(item, options, inner),
    );
    return wrap('{', items, '}', options, newline);
  }
  throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
}

function wrap(
  open: string,
  items: readonly string[],
  close: string,
  { indent, itemSeparator }: JsonOptions,
  newline: string,
): string {
  if (items.length === 0) return open + close;
  if (indent === null) return checkedText(open + items.join(itemSeparator) + close);
  const inner = newline + indent;
  return checkedText(open + inner + items.join(itemSeparator + inner) + newline + close);
}

function jsonText(text: string, { ensureAscii }: JsonOptions): string {
  const json = JSON.stringify(text);
  if (!ensureAscii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  return printFloat(value);
}
