// Granite: a JSON list of calls after <|tool_call|>; the 20B model for functions writes one call after each <function_call>.

import { readJsonCall, readJsonCalls } from '../json-calls.ts';
import { jsonCall, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<|tool_call|>';
/** As the 3.0 models spell it in plain text. */
const PLAIN_BEGIN = '<tool_call>';

export const granite: ToolFormat = {
  tokens: [BEGIN],
  *read(reader, writer) {
    for (;;) {
      const begin = yield* reader.copyUntil([BEGIN, PLAIN_BEGIN], (text) => writer.content(text));
      if (begin === null) return;
      if (!(yield* readJsonCalls(reader, writer))) writer.content(begin);
    }
  },
  writing: {
    trigger: BEGIN,
    alsoRead: () => [PLAIN_BEGIN],
    begin: `${BEGIN}[`,
    call: jsonCall,
    separator: ', ',
    end: ']',
  },
};

const FUNCTION_CALL = '<function_call>';

export const granite20bFc: ToolFormat = {
  tokens: [FUNCTION_CALL],
  *read(reader, writer) {
    while ((yield* reader.copyUntil([FUNCTION_CALL], (text) => writer.content(text))) !== null) {
      if (!(yield* readJsonCall(reader, writer))) writer.content(FUNCTION_CALL);
    }
  },
  writing: {
    trigger: FUNCTION_CALL,
    begin: `${FUNCTION_CALL} `,
    call: jsonCall,
    separator: ` ${FUNCTION_CALL} `,
    end: '',
  },
};
