// POST /v1/chat/completions on the wire: the schema of requests.

import { z } from 'zod';
import { toolFields } from '../../parsers/tool-fields.ts';
import { chatMessageSchema } from '../../tokenizer/chat-messages.ts';
import { atMost, listOf } from '../../util/bounded-schemas.ts';
import { commonFields, unavailableFields } from './common-fields.ts';

/** Rendering them is work of the main thread, about 10 microseconds each. */
const MAX_MESSAGES = 4096;

const MAX_VARIABLES = 256;
const MAX_MODALITIES = 8;

const templateVariables = atMost<Record<string, unknown>>(MAX_VARIABLES, 'variables').pipe(
  z.record(z.string(), z.unknown()),
);

export const chatCompletionSchema = z.looseObject({
  ...commonFields,
  messages: listOf(chatMessageSchema, MAX_MESSAGES).refine(
    (list) => list.length > 0,
    'must have at least 1 element',
  ),
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.boolean().nullish(),
  /** Most probable tokens beside each token; -1 for the whole vocabulary. */
  top_logprobs: z.int().min(-1).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_kwargs: templateVariables.nullish(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  /** This server has no voice. */
  modalities: listOf(z.literal('text'), MAX_MODALITIES).nullish(),
  ...toolFields,
  include_reasoning: z.boolean().nullish(),
});

export type ChatCompletionRequest = z.output<typeof chatCompletionSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableChatFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableFields,
  functions: [],
  function_call: ['none'],
  documents: [],
  chat_template: [],
  mm_processor_kwargs: [],
  media_io_kwargs: [],
  audio: [],
  web_search_options: [],
};

/**
 * Harmless: a prediction only saves time, nothing is ever stored, and models
 * that know of verbosity are not served.
 */
export const ignoredChatFields: ReadonlySet<string> = new Set(['prediction', 'store', 'verbosity']);
