// GLM-4.5 and later: the name of the function, then a pair of tags for each argument, in <tool_call> tags.

import { ArgumentsWriter, taggedArguments } from '../argument-values.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { readAfterEach, sequence, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<tool_call>';
const END = '</tool_call>';
const KEY = '<arg_key>';
const KEY_END = '</arg_key>';
const VALUE = '<arg_value>';
const VALUE_END = '</arg_value>';

export const glm45: ToolFormat = {
  tokens: [BEGIN, END, KEY, KEY_END, VALUE, VALUE_END],
  *read(reader, writer, tools) {
    yield* readAfterEach(BEGIN, reader, writer, function* () {
      const name = yield* reader.attempt(() => readName(reader));
      if (name === null) return false;
      writer.call(name);
      const values = new ArgumentsWriter(
        writer,
        tools.find((tool) => tool.name === name),
      );
      for (let key = yield* readKey(reader); key !== null; key = yield* readKey(reader)) {
        yield* values.read(reader, key, [VALUE_END]);
      }
      values.end();
      yield* reader.takeIf(END);
      return true;
    });
  },
  writing: {
    trigger: BEGIN,
    begin: BEGIN,
    call: (tool) =>
      sequence(
        `${tool.name}\n`,
        taggedArguments(tool, {
          before: (name) => `${KEY}${name}${KEY_END}\n${VALUE}`,
          end: VALUE_END,
          after: '\n',
        }),
      ),
    separator: `${END}\n${BEGIN}`,
    end: END,
  },
};

/** The name, where arguments or the end of the call come after it. */
function* readName(reader: TextReader): Reading<string | null> {
  const name = yield* reader.takeWhile(/[^<]/);
  const isCall =
    /^\s*[\w.:/-]+\s*$/.test(name) && ((yield* reader.isNext(KEY)) || (yield* reader.isNext(END)));
  return isCall ? name.trim() : null;
}

/** Up to the value. */
function* readKey(reader: TextReader): Reading<string | null> {
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf(KEY))) return null;
  let key = '';
  const end = yield* reader.copyUntil([KEY_END], (text) => {
    key += text;
  });
  yield* reader.advanceOverSpace();
  return end !== null && (yield* reader.takeIf(VALUE)) ? key.trim() : null;
}
