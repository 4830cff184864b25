// Hermes and Qwen: each call as JSON in <tool_call> tags.

import { readJsonCall } from '../json-calls.ts';
import { jsonCall, readAfterEach, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<tool_call>';
const END = '</tool_call>';

export const hermes: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      const isCall = yield* readJsonCall(reader, writer);
      if (!isCall) return false;
      yield* reader.advanceOverSpace();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: {
    trigger: BEGIN,
    begin: `${BEGIN}\n`,
    call: jsonCall,
    separator: `\n${END}\n${BEGIN}\n`,
    end: `\n${END}`,
  },
};
