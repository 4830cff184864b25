// /v1/chat/completions: a conversation, whose prompt only the instances can render.

import { chunkStream } from './chunk-stream.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { generationTraits } from './generation-traits.ts';
import { conversationPrompt } from './prompt.ts';

export const chatCompletions: EndpointAdapter = {
  ...chunkStream,
  path: '/v1/chat/completions',
  readRequest: (body) => generationTraits(body, conversationPrompt(body.tools, body.messages)),
};
