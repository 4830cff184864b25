// Bytes of a body become JSON that is safe and quick to read: valid UTF-8, not too deep, not too many values, no halves of
// characters.

import { isUtf8 } from 'node:buffer';
import { InvalidRequestError, MalformedRequestError, messageOf } from '../errors.ts';
import { holdsWholeNumber, parseExactJson } from '../util/exact-json.ts';
import { shortened } from '../util/preview.ts';

/** Nesting that no request needs; deeper values would overflow the stack of whatever walks them. */
const MAX_DEPTH = 128;
/** Texts, lists, objects and names of fields together: handing more over to the main thread would hold it up. */
const MAX_PARTS = 45_000;
/** Numbers, true, false and null, lists of token ids left out. */
const MAX_SCALARS = 300_000;
/** Of one object: each name is a text of its own, and schemas and templates look at every one. */
const MAX_FIELDS = 4096;
/** The fields whose lists may have millions of token ids: those of completions, and of embeddings. */
const TOKEN_IDS = ['prompt', 'input'];
/** The field in whose `choices` a proxy sends the tokens of streams that are to go on. */
const RESUMED = 'svc_resume';
/** The fields that chat templates print. */
const TEMPLATE_FIELDS = ['messages', 'tools', 'functions', 'documents', 'chat_template_kwargs'];
/** A number that JSON.parse may not give as it was written: a whole float, or one of many digits. */
const INEXACT = /\d(?:\.0|[eE])|\d{16}/;
/** Characters of the place of a fault that an error shows. */
const MAX_SHOWN_PATH = 200;
/** Ids are below. */
const MAX_ID = 2 ** 31;
const BYTE_ORDER_MARK = '\ufeff';
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const OPEN_OBJECT = 0x7b;
const CLOSE_LIST = 0x5d;
const CLOSE_OBJECT = 0x7d;
/** JSON text can only hold half a character as an escape. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * What JSON.parse gives, but that lists of token ids in `prompt`, `input` and `svc_resume` are Int32Arrays: they pass between threads at no
 * cost, or at little.
 * @param isForTemplates numbers in the fields that chat templates print are as of `parseExactJson`.
 * @throws MalformedRequestError where the bytes are not JSON.
 * @throws InvalidRequestError where there are too many values, an object has too many fields, or a text holds half a
 * surrogate pair, with its path.
 */
export function parseJsonBody(bytes: Uint8Array, { isForTemplates = false } = {}): unknown {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  checkShape(buffer);
  const text = decode(buffer);
  const value = packTokenIds(parse(text));
  checkValues(value, SURROGATE_ESCAPE.test(text));
  return isForTemplates ? withExactNumbers(value, text) : value;
}

function withExactNumbers(body: unknown, text: string): unknown {
  if (!isObject(body) || holdsTokenIds(body) || !INEXACT.test(text)) return body;
  const names = TEMPLATE_FIELDS.filter((name) => holdsWholeNumber(Reflect.get(body, name)));
  const exact = names.length > 0 ? parseExactJson(text) : null;
  if (!isObject(exact)) return body;
  return { ...body, ...Object.fromEntries(names.map((name) => [name, Reflect.get(exact, name)])) };
}

/** They are too long to be read twice, and no template prints them. */
function holdsTokenIds(body: object): boolean {
  return TOKEN_IDS.some((name) => [Reflect.get(body, name)].flat().some(ArrayBuffer.isView));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
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
    // The reason may quote half a character, which has no UTF-8: the round trip replaces it.
    throw new MalformedRequestError(`The body is not valid JSON: ${Buffer.from(messageOf(cause))}`, {
      cause,
    });
  }
}

/** Runs over the bytes before anything is built from them; texts are skipped at the speed of indexOf. */
function checkShape(bytes: Buffer): void {
  let depth = 0;
  let numParts = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = endOfText(bytes, at);
      numParts += 1;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      depth += 1;
      numParts += 1;
      if (depth > MAX_DEPTH) {
        throw new MalformedRequestError(
          `The body is nested more than ${MAX_DEPTH} levels deep, at position ${at}`,
        );
      }
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth -= 1;
    }
    if (numParts > MAX_PARTS) {
      throw new InvalidRequestError(
        `The body holds more than ${MAX_PARTS} texts, lists, objects and names of fields, at position ${at}`,
      );
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

function packTokenIds(body: unknown): unknown {
  if (!isObject(body)) return body;
  const lists = TOKEN_IDS.filter((name) => Array.isArray(Reflect.get(body, name)));
  const resumed: unknown = Reflect.get(body, RESUMED);
  const holdsResumed = isObject(resumed) && 'choices' in resumed;
  if (lists.length === 0 && !holdsResumed) return body;
  return {
    ...body,
    ...Object.fromEntries(lists.map((name) => [name, packedLists(Reflect.get(body, name))])),
    ...(holdsResumed && { [RESUMED]: { ...resumed, choices: eachPacked(resumed.choices) } }),
  };
}

function eachPacked(lists: unknown): unknown {
  return Array.isArray(lists) ? lists.map(packed) : lists;
}

function packedLists(lists: unknown): unknown {
  return Array.isArray(lists) && Array.isArray(lists[0]) ? eachPacked(lists) : packed(lists);
}

/** An empty list stays a list: nobody knows of what. */
function packed(list: unknown): unknown {
  if (!Array.isArray(list) || list.length === 0) return list;
  return list.every(isTokenId) ? Int32Array.from(list) : list;
}

function isTokenId(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < MAX_ID;
}

/** @throws InvalidRequestError for too many numbers, an object of too many fields, half a character in a text. */
function checkValues(body: unknown, mayHoldHalves: boolean): void {
  let numScalars = 0;
  const check = (value: unknown, path: string): void => {
    if (typeof value === 'string') {
      if (mayHoldHalves) checkText(value, path);
    } else if (typeof value !== 'object' || value === null) {
      numScalars += 1;
      if (numScalars > MAX_SCALARS) throw tooManyScalars();
    } else if (Array.isArray(value)) {
      for (const [index, element] of value.entries()) check(element, `${path}[${index}]`);
    } else if (!ArrayBuffer.isView(value)) {
      const fields = Object.entries(value);
      if (fields.length > MAX_FIELDS) throw tooManyFields(fields.length, path);
      for (const [name, field] of fields) {
        if (mayHoldHalves) checkText(name, 'A field name');
        check(field, path === '' ? shortened(name) : `${path}.${shortened(name)}`);
      }
    }
  };
  check(body, '');
}

function checkText(text: string, path: string): void {
  const offset = text.search(LONE_SURROGATE);
  if (offset < 0) return;
  const half = `\\u${text.charCodeAt(offset).toString(16)}`;
  throw new InvalidRequestError(
    `${shownPath(path)} holds half a character (the lone surrogate ${half}, at index ${offset}): ` +
      'send whole Unicode characters',
    { param: fieldOf(path) },
  );
}

function tooManyScalars(): InvalidRequestError {
  return new InvalidRequestError(
    `The body holds more than ${MAX_SCALARS} numbers outside of lists of token ids in ${TOKEN_IDS.join(' and ')}`,
  );
}

function tooManyFields(numFields: number, path: string): InvalidRequestError {
  return new InvalidRequestError(
    `${shownPath(path)} has ${numFields} fields: an object may have at most ${MAX_FIELDS}`,
    { param: fieldOf(path) },
  );
}

function shownPath(path: string): string {
  return shortened(path, MAX_SHOWN_PATH) || 'The body';
}

function fieldOf(path: string): string | undefined {
  return /^[^.[]+/.exec(path)?.[0];
}
