// Llama 3: the whole answer is calls as JSON with "parameters", several separated by semicolons; <|python_tag|> may be before
// them. Other answers may be JSON too, so only the name of a given function makes it a call.

import type { FunctionTool } from '../answer-parts.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import { readJsonCall } from '../json-calls.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, namesOf, sequence, type ToolFormat } from '../tool-format.ts';

const BEGIN = '{"name": ';
const TAG = '<|python_tag|>';

export const llama3Json: ToolFormat = {
  tokens: [TAG],
  *read(reader, writer, tools) {
    let tag: string | null = '';
    do {
      if (!(yield* readCalls(reader, writer, tools))) writer.content(tag);
      tag = yield* reader.copyUntil([TAG], (text) => writer.content(text));
    } while (tag !== null);
  },
  writing: {
    trigger: BEGIN,
    // However an object is laid out, it is a call by the name of a function, which is read without escapes only.
    alsoRead: (names) => names.map((name) => JSON.stringify(name)),
    begin: BEGIN,
    call: (tool) => sequence(`${JSON.stringify(tool.name)}, "parameters": `, jsonArguments(tool), '}'),
    separator: `; ${BEGIN}`,
    end: '',
  },
};

/** Whether there was one. */
function* readCalls(
  reader: TextReader,
  writer: AnswerWriter,
  tools: readonly FunctionTool[],
): Reading<boolean> {
  const rules = { names: namesOf(tools), allowsNoArguments: false };
  if (!(yield* readJsonCall(reader, writer, rules))) return false;
  while (yield* reader.takeIf(';')) {
    if (!(yield* readJsonCall(reader, writer, rules))) writer.content(';');
  }
  return true;
}
