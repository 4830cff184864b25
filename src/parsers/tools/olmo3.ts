// OLMo 3: calls in the syntax of Python, each on a line of its own, between tags.

import { namesOf, type ToolFormat } from '../tool-format.ts';
import { pythonCall, readPythonArguments, readPythonHead } from './pythonic.ts';

const BEGIN = '<function_calls>';
const END = '</function_calls>';

export const olmo3: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    const names = namesOf(tools);
    const readHead = () => readPythonHead(reader, names);
    while ((yield* reader.copyUntil([BEGIN], (text) => writer.content(text))) !== null) {
      let head = yield* reader.attempt(readHead);
      if (head === null) {
        writer.content(BEGIN);
        continue;
      }
      for (; head !== null; head = yield* reader.attempt(readHead)) {
        yield* readPythonArguments(reader, writer, head);
      }
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
    }
  },
  writing: { trigger: BEGIN, begin: BEGIN, call: pythonCall, separator: '\n', end: END },
};
