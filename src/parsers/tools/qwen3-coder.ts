// Qwen3-Coder and Seed-OSS: <function=name> with a tag for each parameter, in tags of their own, which the model leaves out at times.

import type { FunctionTool } from '../answer-parts.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import { ArgumentsWriter, taggedArguments } from '../argument-values.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { sequence, type ToolFormat } from '../tool-format.ts';

const FUNCTION = '<function=';
const FUNCTION_END = '</function>';
const PARAMETER = '<parameter=';
const PARAMETER_END = '</parameter>';

interface Tags {
  /** Around a call. */
  readonly begin: string;
  readonly end: string;
  /** On either side of a value, and no part of it. */
  readonly padding: '\n' | '';
}

export const qwen3Coder = functionTags({ begin: '<tool_call>', end: '</tool_call>', padding: '\n' });
export const seedOss = functionTags({ begin: '<seed:tool_call>', end: '</seed:tool_call>', padding: '' });

function functionTags(tags: Tags): ToolFormat {
  const { begin, end, padding } = tags;
  return {
    tokens: [begin, end],
    *read(reader, writer, tools) {
      for (;;) {
        const found = yield* reader.copyUntil([begin, FUNCTION], (text) => writer.content(text));
        if (found === null) return;
        const name = yield* reader.attempt(() => readName(reader, found === begin));
        if (name === null) writer.content(found);
        else yield* readCall(reader, writer, tags, { name, tool: tools.find((tool) => tool.name === name) });
      }
    },
    writing: {
      trigger: begin,
      alsoRead: () => [FUNCTION],
      begin: `${begin}\n`,
      call: (tool) =>
        sequence(
          `${FUNCTION}${tool.name}>\n`,
          taggedArguments(tool, {
            before: (name) => `${PARAMETER}${name}>${padding}`,
            end: `${padding}${PARAMETER_END}`,
            after: '\n',
          }),
          FUNCTION_END,
        ),
      separator: `\n${end}\n${begin}\n`,
      end: `\n${end}`,
    },
  };
}

function* readName(reader: TextReader, isTagged: boolean): Reading<string | null> {
  if (isTagged) {
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
  { end, padding }: Tags,
  { name, tool }: { readonly name: string; readonly tool: FunctionTool | undefined },
): Reading {
  writer.call(name);
  const values = new ArgumentsWriter(writer, tool);
  for (;;) {
    yield* reader.advanceOverSpace();
    const parameter = (yield* reader.takeIf(PARAMETER)) ? yield* readTagged(reader) : null;
    if (parameter === null) break;
    if (padding !== '') yield* reader.takeIf(padding);
    yield* values.read(reader, parameter, [...new Set([padding + PARAMETER_END, PARAMETER_END])]);
  }
  values.end();
  yield* reader.takeIf(FUNCTION_END);
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(end);
}
