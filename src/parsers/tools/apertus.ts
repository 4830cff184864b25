// Apertus: a JSON list between tokens, of objects with one key: the name of the function, and behind it the arguments.

import type { AnswerWriter } from '../answer-writer.ts';
import { copyJson, MAX_NAME, readKey } from '../json-calls.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, readAfterEach, sequence, type ToolFormat } from '../tool-format.ts';

export const BEGIN = '<|tools_prefix|>';
const END = '<|tools_suffix|>';

export const apertus: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      if (!(yield* readCalls(reader, writer))) return false;
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: {
    trigger: BEGIN,
    begin: `${BEGIN}[`,
    call: (tool) => sequence(`{${JSON.stringify(tool.name)}: `, jsonArguments(tool), '}'),
    separator: ', ',
    end: `]${END}`,
  },
};

/** Reads `[call, call, ...]` if it begins with a call, else nothing. */
function* readCalls(reader: TextReader, writer: AnswerWriter): Reading<boolean> {
  if (!(yield* readCall(reader, writer, '['))) return false;
  for (;;) {
    yield* reader.advanceOverSpace();
    if (yield* reader.takeIf(']')) return true;
    if (!(yield* readCall(reader, writer, ','))) return true;
  }
}

/** Reads what comes before a call, and the call, if both are there, else nothing. */
function* readCall(reader: TextReader, writer: AnswerWriter, before: string): Reading<boolean> {
  const name = yield* reader.attempt(() => readName(reader, before));
  if (name === null) return false;
  writer.call(name);
  yield* copyJson(reader, (text) => writer.arguments(text));
  yield* reader.advanceOverSpace();
  yield* reader.takeIf('}');
  return true;
}

function* readName(reader: TextReader, before: string): Reading<string | null> {
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf(before))) return null;
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf('{'))) return null;
  const name = yield* readKey(reader);
  if (name === null || name === '' || name.length > MAX_NAME) return null;
  return (yield* reader.isNext('{')) ? name : null;
}
