// Calls that a model writes as JSON: {"name": "f", "arguments": {...}}. Their arguments leave as they come, in the very
// characters of the model.

import { parseJson } from '../util/parse-json.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, TextReader } from './text-reader.ts';

const ARGUMENT_KEYS = new Set(['arguments', 'parameters']);
/** Keys that some models write beside the name. */
const OTHER_KEYS = new Set(['id', 'type']);
/** Characters of the name of a function. */
export const MAX_NAME = 256;
/** What JSON has outside of its strings. */
const JSON_CHARACTER = /[\s{}[\],:\w+.-]/;

interface CallRules {
  /** Only a name of these makes a call, as JSON.stringify writes it: by this text a constraint knows it. Null takes any. */
  readonly names: ReadonlySet<string> | null;
  /** An object with a name and no arguments is a call. */
  readonly allowsNoArguments: boolean;
}

/** Between tags that mean nothing else. */
export const TAGGED: CallRules = { names: null, allowsNoArguments: true };

interface CallHead {
  readonly name: string;
  /** Where they came before the name. */
  readonly arguments: string | null;
  /** They come next. */
  readonly hasArguments: boolean;
}

/** Reads one call if there is one, else nothing. */
export function* readJsonCall(
  reader: TextReader,
  writer: AnswerWriter,
  rules: CallRules = TAGGED,
): Reading<boolean> {
  const head = yield* reader.attempt(() => readHead(reader, rules));
  if (head !== null) yield* readBody(reader, writer, head);
  return head !== null;
}

/** Reads `[call, call, ...]` if it begins with a call, else nothing. */
export function* readJsonCalls(
  reader: TextReader,
  writer: AnswerWriter,
  rules: CallRules = TAGGED,
): Reading<boolean> {
  const first = yield* reader.attempt(function* () {
    yield* reader.advanceOverSpace();
    return (yield* reader.takeIf('[')) ? yield* readHead(reader, rules) : null;
  });
  if (first === null) return false;
  yield* readBody(reader, writer, first);
  for (;;) {
    yield* reader.advanceOverSpace();
    const goesOn = !(yield* reader.takeIf(']')) && (yield* reader.takeIf(','));
    if (!goesOn || !(yield* readJsonCall(reader, writer, rules))) return true;
  }
}

function* readBody(reader: TextReader, writer: AnswerWriter, head: CallHead): Reading {
  writer.call(head.name);
  if (head.hasArguments) yield* copyJson(reader, (text) => writer.arguments(text));
  else writer.arguments(head.arguments ?? '{}');
  yield* advanceOverFields(reader);
}

/** Reads up to the arguments, or up to the end of an object where they are missing or came first. */
function* readHead(reader: TextReader, rules: CallRules): Reading<CallHead | null> {
  let name: string | null = null;
  let early: string | null = null;
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf('{'))) return null;
  for (;;) {
    const key = yield* readKey(reader);
    if (key === null) return null;
    if (key === 'name') {
      name = yield* readName(reader, rules);
      if (name === null) return null;
    } else if (ARGUMENT_KEYS.has(key)) {
      if ((yield* reader.peek()) !== '{') return null;
      if (name !== null) return { name, arguments: null, hasArguments: true };
      early = yield* readJson(reader);
    } else if (OTHER_KEYS.has(key)) {
      yield* readJson(reader);
    } else {
      return null;
    }
    if (name !== null && early !== null) return { name, arguments: early, hasArguments: false };
    yield* reader.advanceOverSpace();
    if (yield* reader.takeIf(',')) continue;
    const isCall = name !== null && rules.allowsNoArguments && (yield* reader.peek()) === '}';
    return isCall ? { name: name!, arguments: null, hasArguments: false } : null;
  }
}

/** `"key": `; null where there is none. */
export function* readKey(reader: TextReader): Reading<string | null> {
  yield* reader.advanceOverSpace();
  const key = yield* readString(reader);
  yield* reader.advanceOverSpace();
  if (key === null || !(yield* reader.takeIf(':'))) return null;
  yield* reader.advanceOverSpace();
  return key;
}

function* readName(reader: TextReader, { names }: CallRules): Reading<string | null> {
  if ((yield* reader.peek()) !== '"') return null;
  const json = yield* readJson(reader);
  const name = parseJson(json);
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME) return null;
  return names === null || (names.has(name) && json === JSON.stringify(name)) ? name : null;
}

function* readString(reader: TextReader): Reading<string | null> {
  if ((yield* reader.peek()) !== '"') return null;
  const value = parseJson(yield* readJson(reader));
  return typeof value === 'string' ? value : null;
}

function* readJson(reader: TextReader): Reading<string> {
  let json = '';
  yield* copyJson(reader, (text) => {
    json += text;
  });
  return json;
}

/** What is left of an object after its arguments. */
function* advanceOverFields(reader: TextReader): Reading {
  for (;;) {
    yield* reader.advanceOverSpace();
    if (yield* reader.takeIf('}')) return;
    if (!(yield* reader.takeIf(','))) return;
    if ((yield* readKey(reader)) === null) return;
    yield* readJson(reader);
  }
}

/** Reads one value of JSON, or up to the first character that no JSON has; `sink` gets it as it comes. */
export function* copyJson(reader: TextReader, sink: (text: string) => void): Reading {
  const scan = new JsonScan();
  for (;;) {
    const rest = yield* reader.rest();
    if (rest === '') return;
    let end = 0;
    while (end < rest.length && scan.takes(rest[end]!)) end++;
    if (end > 0) sink(rest.slice(0, end));
    reader.advance(end);
    if (end < rest.length || scan.isComplete) return;
  }
}

/** Where a value of JSON ends: brackets are counted, not checked. */
class JsonScan {
  isComplete = false;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isScalar = false;

  /** Whether `char` belongs to the value. */
  takes(char: string): boolean {
    if (this.isComplete) return false;
    if (this.#isInString) return this.#takesInString(char);
    if (char === '"') {
      this.#isInString = true;
      return true;
    }
    if (!JSON_CHARACTER.test(char)) return false;
    if (char === '{' || char === '[') this.#depth += 1;
    else if (char === '}' || char === ']') return this.#closes();
    else if (this.#depth === 0) return this.#takesInScalar(char);
    return true;
  }

  #takesInString(char: string): boolean {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (char === '\\') this.#isEscaped = true;
    else if (char === '"') {
      this.#isInString = false;
      this.isComplete = this.#depth === 0;
    }
    return true;
  }

  #closes(): boolean {
    if (this.#depth === 0) return false;
    this.#depth -= 1;
    this.isComplete = this.#depth === 0;
    return true;
  }

  #takesInScalar(char: string): boolean {
    if (/[\w+.-]/.test(char)) this.#isScalar = true;
    else if (this.#isScalar || !/\s/.test(char)) return false;
    return true;
  }
}
