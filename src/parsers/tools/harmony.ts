// Harmony, the format of GPT-OSS: an answer is messages, each with a channel. Thoughts go to "analysis", the answer to "final",
// and a message to a function is a call.

import type { AnswerWriter } from '../answer-writer.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { jsonArguments, namesOf, sequence, type ToolFormat } from '../tool-format.ts';

const START = '<|start|>';
const CHANNEL = '<|channel|>';
const CONSTRAIN = '<|constrain|>';
const MESSAGE = '<|message|>';
const END = '<|end|>';
const CALL = '<|call|>';
const RETURN = '<|return|>';
const TURN = `${START}assistant`;
const ENDS = [END, CALL, RETURN, START];
const NAMESPACE = 'functions.';
/** Characters before a message; more of them are an answer that is no harmony. */
const MAX_HEADER = 512;

export const harmony: ToolFormat = {
  tokens: [START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN],
  *read(reader, writer, tools) {
    const names = namesOf(tools);
    for (;;) {
      const header = yield* reader.attempt(() => readHeader(reader));
      if (header === null) break;
      yield* readMessage(reader, writer, receiverOf(header, names));
    }
    yield* reader.copyUntil([], (text) => writer.content(text));
  },
  writing: {
    trigger: `${CHANNEL}commentary to=`,
    alsoRead: (names) => [NAMESPACE, ...names].map((receiver) => `to=${receiver}`),
    begin: `${CHANNEL}commentary to=${NAMESPACE}`,
    call: (tool) => sequence(`${tool.name} ${CONSTRAIN}json${MESSAGE}`, jsonArguments(tool)),
    separator: null,
    end: '',
  },
  thoughts: { begin: `${CHANNEL}analysis${MESSAGE}`, end: END, after: TURN },
  answer: { turn: TURN, begin: `${CHANNEL}final${MESSAGE}` },
};

/** What is before the text of a message: its role, its channel, its receiver. */
function* readHeader(reader: TextReader): Reading<string | null> {
  yield* reader.takeIf(START);
  let header = '';
  for (;;) {
    if (yield* reader.takeIf(MESSAGE)) return header;
    const char = yield* reader.peek();
    if (char === '' || header.length > MAX_HEADER || !isHeader(header)) return null;
    header += char;
    reader.advance(1);
  }
}

/** The role is in the prompt, or after the end of a message. */
function isHeader(begun: string): boolean {
  const text = begun.replace(/^assistant/, '').trimStart();
  const isBegun = text.startsWith(CHANNEL) || text.startsWith('to=');
  return isBegun || CHANNEL.startsWith(text) || 'to='.startsWith(text) || 'assistant'.startsWith(text);
}

type Receiver = { readonly call: string } | 'reasoning' | 'content';

/** Where no function may be called, no message is a call, whatever the model remembers of earlier ones. */
function receiverOf(header: string, names: ReadonlySet<string>): Receiver {
  const recipient = /to=([^\s<]+)/.exec(header)?.[1];
  const channel = /<\|channel\|>\s*(\w+)/.exec(header)?.[1];
  if (names.size > 0 && recipient?.startsWith(NAMESPACE)) return { call: recipient.slice(NAMESPACE.length) };
  if (recipient !== undefined && names.has(recipient)) return { call: recipient };
  return channel === 'analysis' ? 'reasoning' : 'content';
}

function* readMessage(reader: TextReader, writer: AnswerWriter, receiver: Receiver): Reading {
  writer.isReasoning = receiver === 'reasoning';
  if (typeof receiver === 'object') writer.call(receiver.call);
  const end = yield* reader.copyUntil(ENDS, (text) => {
    if (typeof receiver === 'object') writer.arguments(text);
    else writer[receiver](text);
  });
  if (receiver === 'reasoning' && end !== null) writer.endReasoning();
}
