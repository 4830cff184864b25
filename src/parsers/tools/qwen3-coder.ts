// Qwen3-Coder: <function=name> with a tag for each parameter, in <tool_call> tags which the model leaves out at times.

import type { FunctionTool } from '../answer-parts.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import { ArgumentsWriter, taggedArguments } from '../argument-values.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { sequence, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<tool_call>';
const END = '</tool_call>';
const FUNCTION = '<function=';
const FUNCTION_END = '</function>';
const PARAMETER = '<parameter=';
const PARAMETER_END = '</parameter>';
/** A line end before the tag is no part of the value. */
const VALUE_ENDS = [`\n${PARAMETER_END}`, PARAMETER_END];

export const qwen3Coder: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    for (;;) {
      const begin = yield* reader.copyUntil([BEGIN, FUNCTION], (text) => writer.content(text));
      if (begin === null) return;
      const name = yield* reader.attempt(() => readName(reader, begin));
      if (name === null) writer.content(begin);
      else yield* readCall(reader, writer, { name, tool: tools.find((tool) => tool.name === name) });
    }
  },
  writing: {
    trigger: BEGIN,
    alsoRead: () => [FUNCTION],
    begin: `${BEGIN}\n`,
    call: (tool) =>
      sequence(
        `${FUNCTION}${tool.name}>\n`,
        taggedArguments(tool, {
          before: (name) => `${PARAMETER}${name}>\n`,
          end: `\n${PARAMETER_END}`,
          after: '\n',
        }),
        FUNCTION_END,
      ),
    separator: `\n${END}\n${BEGIN}\n`,
    end: `\n${END}`,
  },
};

function* readName(reader: TextReader, begin: string): Reading<string | null> {
  if (begin === BEGIN) {
    yield* reader.advanceOverSpace();
    if (!(yield* reader.takeIf(FUNCTION))) return null;
  }
  return yield* readTagged(reader);
}

/** What is left of `<function=name>`. */
function* readTagged(reader: TextReader): Reading<string | null> {
  let name = '';
  const end = yield* reader.copyUntil(['>', '\n', '<'], (text) => {
    name += text;
  });
  return end === '>' && name.trim() !== '' ? name.trim() : null;
}

function* readCall(
  reader: TextReader,
  writer: AnswerWriter,
  { name, tool }: { readonly name: string; readonly tool: FunctionTool | undefined },
): Reading {
  writer.call(name);
  const values = new ArgumentsWriter(writer, tool);
  for (;;) {
    yield* reader.advanceOverSpace();
    const parameter = (yield* reader.takeIf(PARAMETER)) ? yield* readTagged(reader) : null;
    if (parameter === null) break;
    yield* reader.takeIf('\n');
    yield* values.read(reader, parameter, VALUE_ENDS);
  }
  values.end();
  yield* reader.takeIf(FUNCTION_END);
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(END);
}
