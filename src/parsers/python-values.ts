// Values in the syntax of Python.

import { type Reading, TextReader } from './text-reader.ts';
import { copyValue, type JsonSink, jsonOfWord, type ValueSyntax } from './value-syntax.ts';

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

const PYTHON: ValueSyntax = {
  brackets: {
    '[': { close: ']', isDictionary: false },
    '(': { close: ')', isDictionary: false },
    '{': { close: '}', isDictionary: true },
  },
  separators: [':'],
  copyString: copyStrings,
  *copyWord(reader, sink) {
    sink(jsonOfWord(yield* readWord(reader)));
  },
  readKey: readWord,
};

/** Reads one value. What is no value becomes a string of its text. */
export function copyPythonValue(reader: TextReader, sink: JsonSink): Reading {
  return copyValue(reader, sink, PYTHON);
}

/** The one value that `text` is, as JSON; null where there is more. */
export function jsonOfPython(text: string): string | null {
  const reader = new TextReader();
  reader.add(text);
  reader.end();
  let json = '';
  const reading = (function* (): Reading<boolean> {
    yield* copyPythonValue(reader, (piece) => {
      json += piece;
    });
    yield* reader.advanceOverSpace();
    return (yield* reader.peek()) === '';
  })();
  return reading.next().value === true ? json : null;
}

/** A string; those after it belong to it. */
function* copyStrings(reader: TextReader, sink: JsonSink): Reading<boolean> {
  const isQuote = (char: string): boolean => char === '"' || char === "'";
  if (!isQuote(yield* reader.peek())) return false;
  sink('"');
  for (let quote = yield* reader.peek(); isQuote(quote); quote = yield* reader.peek()) {
    reader.advance(1);
    yield* copyString(reader, quote, sink);
    yield* reader.advanceOverSpace();
  }
  sink('"');
  return true;
}

function* copyString(reader: TextReader, quote: string, sink: JsonSink): Reading {
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

/** Up to what ends a value. */
function* readWord(reader: TextReader): Reading<string> {
  const word = yield* reader.takeWhile(/[^,:()[\]{}]/);
  return word.trim();
}
