// Phi-4-mini: a JSON list of calls after "functools", or between its tokens for calls.

import { readJsonCalls } from '../json-calls.ts';
import { jsonCall, type ToolFormat } from '../tool-format.ts';

const FUNCTOOLS = 'functools';
const BEGIN = '<|tool_call|>';
const END = '<|/tool_call|>';

const reading: Pick<ToolFormat, 'tokens' | 'read'> = {
  tokens: [BEGIN, END],
  *read(reader, writer) {
    for (;;) {
      const begin = yield* reader.copyUntil([FUNCTOOLS, BEGIN], (text) => writer.content(text));
      if (begin === null) return;
      if (yield* readJsonCalls(reader, writer)) yield* reader.takeIf(END);
      else writer.content(begin);
    }
  },
};

export const phi4Mini: ToolFormat = {
  ...reading,
  writing: {
    trigger: FUNCTOOLS,
    alsoRead: () => [BEGIN],
    begin: `${FUNCTOOLS}[`,
    call: jsonCall,
    separator: ', ',
    end: ']',
  },
};

/** Of templates that show the tokens. */
export const phi4MiniTagged: ToolFormat = {
  ...reading,
  writing: {
    trigger: BEGIN,
    alsoRead: () => [FUNCTOOLS],
    begin: `${BEGIN}[`,
    call: jsonCall,
    separator: ', ',
    end: `]${END}`,
  },
};
