// Values that models do not write as JSON become JSON while they are read: lists and dictionaries in brackets, whatever the
// strings and words of the syntax look like.

import type { Reading, TextReader } from './text-reader.ts';

export type JsonSink = (json: string) => void;

interface Brackets {
  readonly close: string;
  readonly isDictionary: boolean;
}

export interface ValueSyntax {
  /** By what opens them. */
  readonly brackets: Readonly<Record<string, Brackets>>;
  /** Between a key and its value. */
  readonly separators: readonly string[];
  /** Reads a string, as a value or as a key; false, and nothing is read, where none comes next. */
  copyString(reader: TextReader, sink: JsonSink): Reading<boolean>;
  /** Reads any other value, which is in no brackets. */
  copyWord(reader: TextReader, sink: JsonSink): Reading;
  /** Reads a key that is no string. */
  readKey(reader: TextReader): Reading<string>;
}

/** Those of JSON are taken as well. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);
/** Deeper ones are not read: the text of a model has none. */
const MAX_DEPTH = 64;

/** Reads one value. */
export function* copyValue(reader: TextReader, sink: JsonSink, syntax: ValueSyntax, depth = 0): Reading {
  yield* reader.advanceOverSpace();
  if (yield* syntax.copyString(reader, sink)) return;
  const brackets = syntax.brackets[yield* reader.peek()];
  if (brackets === undefined || depth >= MAX_DEPTH) yield* syntax.copyWord(reader, sink);
  else yield* copyCollection(reader, sink, syntax, { ...brackets, depth });
}

function* copyCollection(
  reader: TextReader,
  sink: JsonSink,
  syntax: ValueSyntax,
  { close, isDictionary, depth }: Brackets & { readonly depth: number },
): Reading {
  reader.advance(1);
  sink(isDictionary ? '{' : '[');
  for (let isFirst = true; ; isFirst = false) {
    yield* reader.advanceOverSpace();
    const isOver = (yield* reader.takeIf(close)) || (yield* reader.peek()) === '';
    if (isOver) break;
    if (!isFirst) sink(', ');
    if (isDictionary) yield* copyKey(reader, sink, syntax);
    yield* copyValue(reader, sink, syntax, depth + 1);
    yield* reader.advanceOverSpace();
    const goesOn = yield* reader.takeIf(',');
    if (goesOn) continue;
    yield* reader.takeIf(close);
    break;
  }
  sink(isDictionary ? '}' : ']');
}

/** `key: `, which JSON has as a string. */
function* copyKey(reader: TextReader, sink: JsonSink, syntax: ValueSyntax): Reading {
  const isString = yield* syntax.copyString(reader, sink);
  if (!isString) sink(JSON.stringify(yield* syntax.readKey(reader)));
  yield* reader.advanceOverSpace();
  for (const separator of syntax.separators) if (yield* reader.takeIf(separator)) break;
  sink(': ');
}

/** What a word is; a string where it is nothing else. */
export function jsonOfWord(word: string): string {
  const json = WORDS.get(word) ?? word;
  if (/^(true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)$/.test(json)) return json;
  // Python also writes 1_000, .5 and 5.
  const digits = json.replaceAll('_', '');
  if (/^-?[1-9]\d*$/.test(digits)) return digits;
  return digits !== '' && Number.isFinite(Number(digits))
    ? JSON.stringify(Number(digits))
    : JSON.stringify(word);
}
