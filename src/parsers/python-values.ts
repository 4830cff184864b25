// Values in the syntax of Python become JSON while they are read.

import type { Reading, TextReader } from './text-reader.ts';

type Sink = (json: string) => void;

/** Those of JSON are taken as well. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);
const CLOSERS: Readonly<Record<string, string>> = { '[': ']', '(': ')', '{': '}' };
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  0: '\0',
  '\n': '',
};
/** Digits after the letter of an escape. */
const CODE_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
/** Deeper ones are not read: the text of a model has none. */
const MAX_DEPTH = 64;

/** Reads one value. What is no value becomes a string of its text. */
export function* copyPythonValue(reader: TextReader, sink: Sink, depth = 0): Reading {
  yield* reader.advanceOverSpace();
  const char = yield* reader.peek();
  if (char === '"' || char === "'") yield* copyStrings(reader, sink);
  else if (CLOSERS[char] !== undefined && depth < MAX_DEPTH) yield* copyCollection(reader, sink, depth);
  else sink(jsonOfWord(yield* readWord(reader)));
}

/** A string; those after it belong to it. */
function* copyStrings(reader: TextReader, sink: Sink): Reading {
  sink('"');
  for (let quote = yield* reader.peek(); quote === '"' || quote === "'"; quote = yield* reader.peek()) {
    reader.advance(1);
    yield* copyString(reader, quote, sink);
    yield* reader.advanceOverSpace();
  }
  sink('"');
}

function* copyString(reader: TextReader, quote: string, sink: Sink): Reading {
  const write = (text: string): void => sink(JSON.stringify(text).slice(1, -1));
  for (;;) {
    const stop = yield* reader.copyUntil([quote, '\\'], write);
    if (stop !== '\\') return;
    write(yield* readEscape(reader));
  }
}

/** What follows a backslash; an unknown escape is its own text, as in Python. */
function* readEscape(reader: TextReader): Reading<string> {
  const char = yield* reader.peek();
  reader.advance(char.length);
  const numDigits = CODE_LENGTHS[char];
  if (numDigits === undefined) return ESCAPES[char] ?? (/['"\\]/.test(char) ? char : `\\${char}`);
  let digits = '';
  while (digits.length < numDigits && /^[\da-fA-F]$/.test(yield* reader.peek())) {
    digits += yield* reader.peek();
    reader.advance(1);
  }
  const code = Number.parseInt(digits, 16);
  const isCode = digits.length === numDigits && code <= 0x10ffff;
  return isCode ? String.fromCodePoint(code) : `\\${char}${digits}`;
}

/** A list, a tuple or a dictionary. */
function* copyCollection(reader: TextReader, sink: Sink, depth: number): Reading {
  const opener = yield* reader.peek();
  const closer = CLOSERS[opener]!;
  const isDictionary = opener === '{';
  reader.advance(1);
  sink(isDictionary ? '{' : '[');
  for (let isFirst = true; ; isFirst = false) {
    yield* reader.advanceOverSpace();
    const isOver = (yield* reader.takeIf(closer)) || (yield* reader.peek()) === '';
    if (isOver) break;
    if (!isFirst) sink(', ');
    if (isDictionary) yield* copyKey(reader, sink);
    yield* copyPythonValue(reader, sink, depth + 1);
    yield* reader.advanceOverSpace();
    const goesOn = yield* reader.takeIf(',');
    if (goesOn) continue;
    yield* reader.takeIf(closer);
    break;
  }
  sink(isDictionary ? '}' : ']');
}

/** `key: `, which JSON has as a string. */
function* copyKey(reader: TextReader, sink: Sink): Reading {
  const char = yield* reader.peek();
  if (char === '"' || char === "'") yield* copyStrings(reader, sink);
  else sink(JSON.stringify(yield* readWord(reader)));
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(':');
  sink(': ');
}

/** Up to what ends a value. */
function* readWord(reader: TextReader): Reading<string> {
  let word = '';
  for (let char = yield* reader.peek(); /^[^,:()[\]{}]$/.test(char); char = yield* reader.peek()) {
    word += char;
    reader.advance(1);
  }
  return word.trim();
}

function jsonOfWord(word: string): string {
  const json = WORDS.get(word) ?? word;
  if (/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)$/.test(json)) return json;
  // Python also writes 1_000, .5 and 5.
  const digits = json.replaceAll('_', '');
  if (/^-?[1-9]\d*$/.test(digits)) return digits;
  return digits !== '' && Number.isFinite(Number(digits))
    ? JSON.stringify(Number(digits))
    : JSON.stringify(word);
}
