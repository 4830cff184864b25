// Qwen3-Coder and Seed-OSS: <function=name> with a tag for each parameter, in tags of their own, which the model leaves out at times.
// MiniMax-M2 writes <invoke name="name">, and all calls between two tags.

import type { FunctionTool } from '../answer-parts.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import { ArgumentsWriter, taggedArguments } from '../argument-values.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { sequence, type ToolFormat } from '../tool-format.ts';

interface Tags {
  /** Around a call, or around all of them. */
  readonly begin: string;
  readonly end: string;
  readonly isAroundAll: boolean;
  readonly function: NamedTag;
  readonly parameter: NamedTag;
  /** On either side of a value, and no part of it. */
  readonly padding: '\n' | '';
}

/** What is before a name and after it, and the tag that ends what it names. */
interface NamedTag {
  readonly before: string;
  readonly after: string;
  readonly end: string;
}

const EQUALS = {
  isAroundAll: false,
  function: { before: '<function=', after: '>', end: '</function>' },
  parameter: { before: '<parameter=', after: '>', end: '</parameter>' },
} as const;

export const qwen3Coder = functionTags({
  ...EQUALS,
  begin: '<tool_call>',
  end: '</tool_call>',
  padding: '\n',
});
export const seedOss = functionTags({
  ...EQUALS,
  begin: '<seed:tool_call>',
  end: '</seed:tool_call>',
  padding: '',
});
export const minimaxM2 = functionTags({
  begin: '<minimax:tool_call>',
  end: '</minimax:tool_call>',
  isAroundAll: true,
  function: { before: '<invoke name="', after: '">', end: '</invoke>' },
  parameter: { before: '<parameter name="', after: '">', end: '</parameter>' },
  padding: '',
});

function functionTags(tags: Tags): ToolFormat {
  const { begin, end, isAroundAll, function: call, parameter, padding } = tags;
  return {
    tokens: [begin, end],
    *read(reader, writer, tools) {
      for (;;) {
        const found = yield* reader.copyUntil([begin, call.before], (text) => writer.content(text));
        if (found === null) return;
        const name = yield* reader.attempt(() => readName(reader, call, found === begin));
        if (name === null) writer.content(found);
        else yield* readCall(reader, writer, tags, { name, tool: tools.find((tool) => tool.name === name) });
      }
    },
    writing: {
      trigger: begin,
      alsoRead: () => [call.before],
      begin: `${begin}\n`,
      call: (tool) =>
        sequence(
          `${call.before}${tool.name}${call.after}\n`,
          taggedArguments(tool, {
            before: (name) => `${parameter.before}${name}${parameter.after}${padding}`,
            end: `${padding}${parameter.end}`,
            after: '\n',
          }),
          call.end,
        ),
      separator: isAroundAll ? '\n' : `\n${end}\n${begin}\n`,
      end: `\n${end}`,
    },
  };
}

function* readName(reader: TextReader, tag: NamedTag, isTagged: boolean): Reading<string | null> {
  if (isTagged) {
    yield* reader.advanceOverSpace();
    if (!(yield* reader.takeIf(tag.before))) return null;
  }
  return yield* readTagged(reader, tag);
}

/** The name, and what is left of its tag. */
function* readTagged(reader: TextReader, { after }: NamedTag): Reading<string | null> {
  let name = '';
  const end = yield* reader.copyUntil([after, '\n', '<'], (text) => {
    name += text;
  });
  return end === after && name.trim() !== '' ? name.trim() : null;
}

function* readCall(
  reader: TextReader,
  writer: AnswerWriter,
  { end, padding, function: call, parameter: tag }: Tags,
  { name, tool }: { readonly name: string; readonly tool: FunctionTool | undefined },
): Reading {
  writer.call(name);
  const values = new ArgumentsWriter(writer, tool);
  for (;;) {
    yield* reader.advanceOverSpace();
    const parameter = (yield* reader.takeIf(tag.before)) ? yield* readTagged(reader, tag) : null;
    if (parameter === null) break;
    if (padding !== '') yield* reader.takeIf(padding);
    yield* values.read(reader, parameter, [...new Set([padding + tag.end, tag.end])]);
  }
  values.end();
  yield* reader.takeIf(call.end);
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(end);
}
