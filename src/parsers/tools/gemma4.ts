// Gemma 4: each call between tokens of its own, its arguments in a syntax of its own: a token stands on either side of a text,
// keys are bare, and nothing is escaped.

import type { Constraint } from '../../structured-output/constraint.ts';
import type { FunctionTool } from '../answer-parts.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, readAfterEach, sequence, type ToolFormat } from '../tool-format.ts';
import { copyValue, jsonOfWord, type ValueSyntax } from '../value-syntax.ts';

export const BEGIN = '<|tool_call>';
const END = '<tool_call|>';
const QUOTE = '<|"|>';
const CALL = 'call:';

export const gemma4: ToolFormat = {
  tokens: [BEGIN, END, QUOTE],
  *read(reader, writer) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      const name = yield* reader.attempt(() => readName(reader));
      if (name === null) return false;
      writer.call(name);
      yield* copyValue(reader, (json) => writer.arguments(json), VALUES);
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: {
    trigger: BEGIN,
    begin: BEGIN + CALL,
    call: writtenCall,
    separator: END + BEGIN + CALL,
    end: END,
  },
};

/** The name, where arguments come after it. */
function* readName(reader: TextReader): Reading<string | null> {
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf(CALL))) return null;
  const name = yield* reader.takeWhile(/[\w.:/-]/);
  const isCall = name !== '' && ((yield* reader.isNext('{')) || (yield* reader.isNext('(')));
  return isCall ? name : null;
}

const VALUES: ValueSyntax = {
  brackets: {
    '{': { close: '}', isDictionary: true },
    '[': { close: ']', isDictionary: false },
    // In long prompts the model falls back to the form of Python, f(a=1), for the arguments as a whole.
    '(': { close: ')', isDictionary: true },
  },
  separators: [':', '='],
  *copyString(reader, sink) {
    if (!(yield* reader.takeIf(QUOTE))) return false;
    sink('"');
    yield* reader.copyUntil([QUOTE], (text) => sink(JSON.stringify(text).slice(1, -1)));
    sink('"');
    return true;
  },
  *copyWord(reader, sink) {
    const word = yield* readUpTo(reader, [QUOTE, `)${END}`, END, ',', ']', '}']);
    const json = jsonOfWord(word.trim());
    const isText = json.startsWith('"') || (yield* reader.isNext(QUOTE));
    const rest = isText ? yield* reader.attempt(() => readRest(reader)) : null;
    sink(rest === null ? json : JSON.stringify(word + rest));
  },
  *readKey(reader) {
    return (yield* readUpTo(reader, [QUOTE, END, ':', '=', ',', ']', '}'])).trim();
  },
};

/** What is left of a text before which the model forgot the mark, as it often does; null where no mark ends one. */
function* readRest(reader: TextReader): Reading<string | null> {
  let rest = '';
  const stop = yield* reader.copyUntil([QUOTE, END, ':'], (text) => {
    rest += text;
  });
  // Behind a comma or a bracket a mark begins the next text.
  return stop === QUOTE && !/[,[{(]\s*$/.test(rest) ? rest : null;
}

function* readUpTo(reader: TextReader, stops: readonly string[]): Reading<string> {
  let text = '';
  yield* reader.copyUpTo(stops, (piece) => {
    text += piece;
  });
  return text;
}

function writtenCall(tool: FunctionTool): Constraint {
  return sequence(tool.name, jsonArguments(tool, { quote: QUOTE }));
}
