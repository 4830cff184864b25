// OLMo 3: calls in the syntax of Python, each on a line of its own, between tags.

import { readAfterEach, type ToolFormat } from '../tool-format.ts';
import { pythonCall, readPythonArguments, readPythonHead } from './pythonic.ts';

const BEGIN = '<function_calls>';
const END = '</function_calls>';

export const olmo3: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    const readHead = () => readPythonHead(reader, tools);
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      let head = yield* reader.attempt(readHead);
      if (head === null) return false;
      for (; head !== null; head = yield* reader.attempt(readHead)) {
        yield* readPythonArguments(reader, writer, head);
      }
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: { trigger: BEGIN, begin: BEGIN, call: pythonCall, separator: '\n', end: END },
};
