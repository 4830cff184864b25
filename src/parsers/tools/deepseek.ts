// DeepSeek V3, V3.1: calls between tokens of their own. V3 names the type of a call first and fences the arguments as code.

import type { AnswerWriter } from '../answer-writer.ts';
import { copyJson } from '../json-calls.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, sequence, type ToolFormat } from '../tool-format.ts';

const CALLS_BEGIN = '<｜tool▁calls▁begin｜>';
const CALLS_END = '<｜tool▁calls▁end｜>';
const CALL_BEGIN = '<｜tool▁call▁begin｜>';
const CALL_END = '<｜tool▁call▁end｜>';
const SEPARATOR = '<｜tool▁sep｜>';
const TOKENS = [CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEPARATOR];
const FENCE = '```json\n';
const FENCE_END = '\n```';

export const deepseekV3: ToolFormat = {
  tokens: TOKENS,
  *read(reader, writer) {
    yield* readAnswer(reader, writer, function* () {
      yield* readUpTo(reader, SEPARATOR);
      const name = yield* readUpTo(reader, '\n');
      if (name === null) return null;
      yield* reader.takeIf(FENCE);
      return name;
    });
  },
  writing: {
    trigger: CALLS_BEGIN,
    begin: CALLS_BEGIN + CALL_BEGIN,
    call: (tool) => sequence(`function${SEPARATOR}${tool.name}\n${FENCE}`, jsonArguments(tool), FENCE_END),
    separator: `${CALL_END}\n${CALL_BEGIN}`,
    end: CALL_END + CALLS_END,
  },
};

export const deepseekV31: ToolFormat = {
  tokens: TOKENS,
  *read(reader, writer) {
    yield* readAnswer(reader, writer, () => readUpTo(reader, SEPARATOR));
  },
  writing: {
    trigger: CALLS_BEGIN,
    begin: CALLS_BEGIN + CALL_BEGIN,
    call: (tool) => sequence(tool.name, SEPARATOR, jsonArguments(tool)),
    separator: CALL_END + CALL_BEGIN,
    end: CALL_END + CALLS_END,
  },
};

/** @param readName what is between the beginning of a call and its arguments. */
function* readAnswer(
  reader: TextReader,
  writer: AnswerWriter,
  readName: () => Reading<string | null>,
): Reading {
  const readHead = function* (): Reading<string | null> {
    yield* reader.advanceOverSpace();
    if (!(yield* reader.takeIf(CALL_BEGIN))) return null;
    const name = yield* readName();
    yield* reader.advanceOverSpace();
    return name !== null && (yield* reader.isNext('{')) ? name.trim() : null;
  };
  while ((yield* reader.copyUntil([CALLS_BEGIN], (text) => writer.content(text))) !== null) {
    let numCalls = 0;
    for (;;) {
      const name = yield* reader.attempt(readHead);
      if (name === null) break;
      numCalls += 1;
      writer.call(name);
      yield* copyJson(reader, (text) => writer.arguments(text));
      yield* advanceOverEnd(reader);
    }
    if (numCalls === 0) writer.content(CALLS_BEGIN);
    else yield* advanceOverWord(reader, CALLS_END);
  }
}

function* advanceOverEnd(reader: TextReader): Reading {
  yield* advanceOverWord(reader, FENCE_END.trim());
  yield* advanceOverWord(reader, CALL_END);
}

function* advanceOverWord(reader: TextReader, word: string): Reading {
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(word);
}

function* readUpTo(reader: TextReader, end: string): Reading<string | null> {
  let text = '';
  const found = yield* reader.copyUntil([end], (piece) => {
    text += piece;
  });
  return found === null ? null : text;
}
