// /v1/messages: a conversation of blocks, answered by the events of a message, and the count of its tokens.

import * as z from 'zod';
import { messagesErrorEvent, statusOfMessageType } from '../../http/error-shapes.ts';
import { countingEndpoint } from './counting.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { namedEventData, startsWith } from './event-bytes.ts';
import { generationTraits } from './generation-traits.ts';
import { conversationPrompt } from './prompt.ts';

const LAST = Buffer.from('event: message_stop\n');
const ERROR = Buffer.from('event: error\n');

const errorEvent = z.object({ error: z.object({ type: z.string() }) });

export const messages: EndpointAdapter = {
  path: '/v1/messages',

  readRequest: (body) => generationTraits(body, conversationPrompt(body.tools, body.system, body.messages)),

  resumeFields: (progress) => ({
    svc_resume: { created: progress.created ?? 0, choices: progress.tokenIds(1) },
  }),

  isLastEvent: (event) => startsWith(event, LAST),

  errorStatus(event) {
    if (!startsWith(event, ERROR)) return null;
    const parsed = errorEvent.safeParse(namedEventData(event));
    return parsed.success ? statusOfMessageType(parsed.data.error.type) : 0;
  },

  /** Messages have no time. */
  createdAt: () => null,

  failure: messagesErrorEvent,
};

export const countTokens = countingEndpoint(messages, '/v1/messages/count_tokens');
