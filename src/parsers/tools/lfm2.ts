// LFM2: lists of calls in the syntax of Python between tokens, and what is said around them.

import { namesOf, type ToolFormat } from '../tool-format.ts';
import { pythonCall, readPythonList } from './pythonic.ts';

const BEGIN = '<|tool_call_start|>';
const END = '<|tool_call_end|>';

export const lfm2: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    const names = namesOf(tools);
    while ((yield* reader.copyUntil([BEGIN], (text) => writer.content(text))) !== null) {
      if (yield* readPythonList(reader, writer, names)) {
        yield* reader.advanceOverSpace();
        yield* reader.takeIf(END);
      } else {
        writer.content(BEGIN);
      }
    }
  },
  writing: { trigger: BEGIN, begin: `${BEGIN}[`, call: pythonCall, separator: ', ', end: `]${END}` },
};
