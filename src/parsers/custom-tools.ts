// Custom tools are called with a text. Models know functions only: to them each is a function of one string, and what they
// write as its arguments becomes that text again.

import type { FunctionTool } from './answer-parts.ts';
import { type Reading, TextReader } from './text-reader.ts';
import type { CustomTool } from './tool-fields.ts';

const INPUT = 'input';
/** What the arguments of a call begin with, space left out. */
const BEGIN = ['{', JSON.stringify(INPUT), ':', '"'];
const FIRST_HALF = /^[\ud800-\udbff]$/;
const HALF = /[\ud800-\udfff]/u;
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

/** Calls of a tool with a grammar are kept to it, whether or not the model must call. */
export function asFunction({ name, description, format }: CustomTool): FunctionTool {
  const pattern = format?.type === 'grammar' ? `^(?:${format.grammar.definition})$` : null;
  const input = { type: 'string', ...(pattern !== null && { pattern }) };
  const parameters = { type: 'object', properties: { [INPUT]: input }, required: [INPUT] };
  return { name, description, parameters, strict: pattern !== null };
}

/** Reads the input from the arguments of one call as they come. Arguments of another form are the input themselves. */
export class CustomInput {
  readonly #reader = new TextReader();
  readonly #reading: Reading;

  constructor(sink: (text: string) => void) {
    this.#reading = readInput(this.#reader, sink);
    this.#reading.next();
  }

  push(text: string): void {
    this.#reader.add(text);
    this.#reading.next();
  }

  end(): void {
    this.#reader.end();
    this.#reading.next();
  }
}

function* readInput(reader: TextReader, sink: (text: string) => void): Reading {
  if ((yield* reader.attempt(() => readBegin(reader))) === null) {
    yield* readOther(reader, sink);
    return;
  }
  while ((yield* reader.copyUntil(['\\', '"'], sink)) === '\\') {
    const char = yield* readEscape(reader);
    // Half a character is no text.
    if (char !== '' && !HALF.test(char)) sink(char);
  }
  // Whatever else the model writes into the call is not kept.
  yield* reader.copyUntil([], () => {});
}

function* readBegin(reader: TextReader): Reading<true | null> {
  for (const part of BEGIN) {
    yield* reader.advanceOverSpace();
    if (!(yield* reader.takeIf(part))) return null;
  }
  return true;
}

function* readOther(reader: TextReader, sink: (text: string) => void): Reading {
  let written = '';
  yield* reader.copyUntil([], (text) => {
    written += text;
  });
  // An answer that was cut before the input is a call with an empty one.
  if (!BEGIN.join('').startsWith(written.replace(/\s/g, ''))) sink(written);
}

/** What is behind a backslash; nothing where it was cut off. */
function* readEscape(reader: TextReader): Reading<string> {
  const char = yield* reader.peek();
  reader.advance(char.length);
  if (char !== 'u') return ESCAPES.get(char) ?? char;
  const unit = yield* readUnit(reader);
  return FIRST_HALF.test(unit) && (yield* reader.takeIf('\\u')) ? unit + (yield* readUnit(reader)) : unit;
}

function* readUnit(reader: TextReader): Reading<string> {
  let digits = '';
  while (digits.length < 4) {
    const digit = yield* reader.peek();
    if (!/^[\da-f]$/i.test(digit)) return '';
    digits += digit;
    reader.advance(1);
  }
  return String.fromCharCode(Number.parseInt(digits, 16));
}
