// Hermes and Qwen: each call as JSON in <tool_call> tags.

import { readJsonCall } from '../json-calls.ts';
import { jsonCall, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<tool_call>';
const END = '</tool_call>';

export const hermes: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer) {
    while ((yield* reader.copyUntil([BEGIN], (text) => writer.content(text))) !== null) {
      if (yield* readJsonCall(reader, writer)) {
        yield* reader.advanceOverSpace();
        yield* reader.takeIf(END);
      } else {
        writer.content(BEGIN);
      }
    }
  },
  writing: {
    trigger: BEGIN,
    begin: `${BEGIN}\n`,
    call: jsonCall,
    separator: `\n${END}\n${BEGIN}\n`,
    end: `\n${END}`,
  },
};
