// Nemotron Nano 2: a JSON list of calls between tags.

import { readJsonCalls } from '../json-calls.ts';
import { jsonCall, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<TOOLCALL>';
const END = '</TOOLCALL>';

export const nemotronJson: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer) {
    while ((yield* reader.copyUntil([BEGIN], (text) => writer.content(text))) !== null) {
      if (yield* readJsonCalls(reader, writer)) {
        yield* reader.advanceOverSpace();
        yield* reader.takeIf(END);
      } else writer.content(BEGIN);
    }
  },
  writing: {
    trigger: BEGIN,
    begin: `${BEGIN}[`,
    call: jsonCall,
    separator: ', ',
    end: `]${END}`,
  },
};
