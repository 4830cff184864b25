// /v1/responses: a conversation of items, answered by events that count themselves. Instances keep no responses here.

import * as z from 'zod';
import { responsesErrorEvent, statusOfResponseCode } from '../../http/error-shapes.ts';
import { countingEndpoint } from './counting.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { namedEventData, startsWith } from './event-bytes.ts';
import { generationTraits } from './generation-traits.ts';
import { conversationPrompt } from './prompt.ts';

const LAST = ['completed', 'incomplete', 'failed'].map((status) =>
  Buffer.from(`event: response.${status}\n`),
);
const ERROR = Buffer.from('event: error\n');

const errorEvent = z.object({ code: z.string() });

export const responses: EndpointAdapter = {
  path: '/v1/responses',

  readRequest(body) {
    const prompt = conversationPrompt(body.tools, body.instructions, body.input);
    return generationTraits(body, prompt, 'max_output_tokens');
  },

  resumeFields(progress) {
    const { created } = progress;
    return created === null ? null : { svc_resume: { created, choices: progress.tokenIds(1) } };
  },

  isLastEvent: (event) => LAST.some((prefix) => startsWith(event, prefix)),

  errorStatus(event) {
    if (!startsWith(event, ERROR)) return null;
    const parsed = errorEvent.safeParse(namedEventData(event));
    return parsed.success ? statusOfResponseCode(parsed.data.code) : 0;
  },

  createdAt(event) {
    const digits = /"created_at":\s*(\d{1,15})/.exec(event.toString('latin1'))?.[1];
    return digits === undefined ? null : Number(digits);
  },

  /** Every event so far has a number, the first of them 0. */
  failure: responsesErrorEvent,
};

export const inputTokens = countingEndpoint(responses, '/v1/responses/input_tokens');
