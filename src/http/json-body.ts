// Bytes of a body become JSON that is safe to look at: valid UTF-8, not too deep, no halves of characters. The app
// calls it for every body.

import { isUtf8 } from 'node:buffer';
import { InvalidRequestError, MalformedRequestError } from '../errors.ts';
import { shortened } from '../util/preview.ts';
import { jsonErrorOffset } from './json-error-offset.ts';

/** Nesting that no request needs; deeper values would overflow the stack of whatever walks them. */
const MAX_DEPTH = 128;
/** Characters of the place of a fault that an error shows. */
const MAX_SHOWN_PATH = 200;
const BYTE_ORDER_MARK = '\ufeff';
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENS = new Set([0x5b, 0x7b]);
const CLOSES = new Set([0x5d, 0x7d]);
/** JSON text can only hold half a character as an escape. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * @throws MalformedRequestError where the bytes are no JSON, with the line and column.
 * @throws InvalidRequestError where a text holds half a surrogate pair, with its path.
 */
export function parseJsonBody(bytes: Buffer): unknown {
  checkDepth(bytes);
  const text = decode(bytes);
  const value = parse(text);
  if (SURROGATE_ESCAPE.test(text)) checkText(value, '');
  return value;
}

function decode(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new MalformedRequestError('The body is not valid UTF-8');
  const text = bytes.toString('utf8');
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}

function parse(text: string): unknown {
  if (text.trim() === '') throw new MalformedRequestError('The body is empty: send a JSON object');
  try {
    return JSON.parse(text);
  } catch (cause) {
    const offset = jsonErrorOffset(text);
    const before = text.slice(0, offset);
    const line = before.split('\n').length;
    const column = offset - before.lastIndexOf('\n');
    const what = offset === text.length ? 'it ends too early' : `unexpected ${JSON.stringify(text[offset])}`;
    throw new MalformedRequestError(
      `The body is not valid JSON: ${what} at position ${offset} (line ${line}, column ${column})`,
      { cause },
    );
  }
}

/** Runs over the bytes before anything is built from them; texts are skipped at the speed of indexOf. */
function checkDepth(bytes: Buffer): void {
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = endOfText(bytes, at);
    } else if (OPENS.has(byte)) {
      depth += 1;
      if (depth > MAX_DEPTH) {
        throw new MalformedRequestError(
          `The body is nested more than ${MAX_DEPTH} levels deep, at position ${at}`,
        );
      }
    } else if (CLOSES.has(byte)) {
      depth -= 1;
    }
  }
}

/** Offset of the quote that closes the text opened at `start`; the end of the body where there is none. */
function endOfText(bytes: Buffer, start: number): number {
  let quote = bytes.indexOf(QUOTE, start + 1);
  while (quote >= 0) {
    let backslashes = 0;
    while (bytes[quote - 1 - backslashes] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote;
    quote = bytes.indexOf(QUOTE, quote + 1);
  }
  return bytes.length;
}

function checkText(value: unknown, path: string): void {
  if (typeof value === 'string') {
    const offset = value.search(LONE_SURROGATE);
    if (offset < 0) return;
    const half = `\\u${value.charCodeAt(offset).toString(16)}`;
    throw new InvalidRequestError(
      `${shortened(path, MAX_SHOWN_PATH) || 'The body'} holds half a character (the lone surrogate ${half}, at index ${offset}): ` +
        'send whole Unicode characters',
      { param: /^[^.[]+/.exec(path)?.[0] },
    );
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, element] of Object.entries(value)) {
    checkText(key, 'A field name');
    checkText(
      element,
      Array.isArray(value) ? `${path}[${key}]` : path === '' ? shortened(key) : `${path}.${shortened(key)}`,
    );
  }
}
