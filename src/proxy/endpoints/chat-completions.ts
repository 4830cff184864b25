// /v1/chat/completions: a conversation, whose prompt only the instances can render.

import { chunkStream } from './chunk-stream.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { generationTraits } from './generation-traits.ts';
import { BYTES_PER_TOKEN, Prompt } from './prompt.ts';

export const chatCompletions: EndpointAdapter = {
  ...chunkStream,
  path: '/v1/chat/completions',
  readRequest(body) {
    const { tools, messages } = body;
    const numTokens = Math.ceil(textBytes(messages) / BYTES_PER_TOKEN);
    // Templates write the tools before the messages.
    const text = (): string =>
      (tools == null ? '' : JSON.stringify(tools)) + (JSON.stringify(messages) ?? '');
    return generationTraits(body, new Prompt(1, numTokens, text));
  },
};

/** Bytes of all texts in the messages; keys are not counted. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const element of Object.values(value)) length += textBytes(element);
  return length;
}
