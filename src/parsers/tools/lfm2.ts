// LFM2: lists of calls in the syntax of Python between tokens, and what is said around them.

import { readAfterEach, type ToolFormat } from '../tool-format.ts';
import { pythonCall, readPythonList } from './pythonic.ts';

const BEGIN = '<|tool_call_start|>';
const END = '<|tool_call_end|>';

export const lfm2: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      const isList = yield* readPythonList(reader, writer, tools);
      if (!isList) return false;
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: { trigger: BEGIN, begin: `${BEGIN}[`, call: pythonCall, separator: ', ', end: `]${END}` },
};
