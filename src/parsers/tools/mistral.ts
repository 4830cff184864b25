// Mistral: a JSON list of calls after [TOOL_CALLS]; with the tokenizers from version 11 on each call has the token for itself,
// the name as plain text, and [ARGS] before its arguments.

import type { AnswerWriter } from '../answer-writer.ts';
import { copyJson, readJsonCalls } from '../json-calls.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, jsonCall, readAfterEach, sequence, type ToolFormat } from '../tool-format.ts';

const BEGIN = '[TOOL_CALLS]';
const ARGS = '[ARGS]';
const CALL_ID = '[CALL_ID]';

const reading: Pick<ToolFormat, 'tokens' | 'read' | 'idLength'> = {
  idLength: 9,
  tokens: [BEGIN, ARGS, CALL_ID],
  *read(reader, writer) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      return (yield* readJsonCalls(reader, writer)) || (yield* readNamedCall(reader, writer));
    });
  },
};

export const mistral: ToolFormat = {
  ...reading,
  writing: { trigger: BEGIN, begin: `${BEGIN}[`, call: jsonCall, separator: ', ', end: ']' },
};

/** Of the tokenizers from version 11 on. */
export const mistralNamed: ToolFormat = {
  ...reading,
  writing: {
    trigger: BEGIN,
    begin: BEGIN,
    call: (tool) => sequence(tool.name, ARGS, jsonArguments(tool)),
    separator: BEGIN,
    end: '',
  },
};

function* readNamedCall(reader: TextReader, writer: AnswerWriter): Reading<boolean> {
  const name = yield* reader.attempt(() => readName(reader));
  if (name === null) return false;
  writer.call(name);
  yield* copyJson(reader, (text) => writer.arguments(text));
  return true;
}

/** Up to the arguments. */
function* readName(reader: TextReader): Reading<string | null> {
  const name = yield* reader.takeWhile(/[^[{}\]"]/);
  if (yield* reader.takeIf(CALL_ID)) yield* reader.takeWhile(/\w/);
  yield* reader.takeIf(ARGS);
  yield* reader.advanceOverSpace();
  return /^\s*[\w.:/-]+\s*$/.test(name) && (yield* reader.isNext('{')) ? name.trim() : null;
}
