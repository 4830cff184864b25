// POST /v1/chat/completions on the wire: the schema of requests.

import * as z from 'zod';
import { toolFields } from '../../parsers/tool-fields.ts';
import { EMPTY } from '../../sampling/sampling-fields.ts';
import { chatMessageSchema } from '../../tokenizer/chat-messages.ts';
import { atMost, listOf } from '../../util/bounded-schemas.ts';
import { commonFields, unavailableFields } from './common-fields.ts';
import { legacyToolFields } from './functions.ts';
import { templateVariables } from './template-variables.ts';

/** Rendering them is work of the main thread, about 10 microseconds each. */
const MAX_MESSAGES = 4096;

const MAX_DOCUMENTS = 1024;
/** Characters; the longest published templates have 40,000. */
const MAX_TEMPLATE = 262_144;
const MAX_TIER = 64;
const MAX_MODALITIES = 8;

/** Notes of the client, which the answer repeats. */
const metadata = atMost<Record<string, string>>(16, 'keys').pipe(
  z.record(z.string().max(64), z.string().max(512)),
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
  /** Texts for the template to tell the model of. */
  documents: listOf(z.record(z.string(), z.unknown()), MAX_DOCUMENTS).nullish(),
  /** Jinja; only where the server trusts the templates of requests. */
  chat_template: z.string().min(1, 'must not be empty').max(MAX_TEMPLATE).nullish(),
  service_tier: z.string().max(MAX_TIER).nullish(),
  metadata: metadata.nullish(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  /** This server has no voice. */
  modalities: listOf(z.literal('text'), MAX_MODALITIES).nullish(),
  ...toolFields,
  ...legacyToolFields,
  include_reasoning: z.boolean().nullish(),
  /** Any object asks for a search, the empty one too. */
  web_search_options: z.null('is not available in svc, which searches no web: leave it out').optional(),
});

export type ChatCompletionRequest = z.output<typeof chatCompletionSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableChatFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableFields,
  mm_processor_kwargs: [EMPTY],
  media_io_kwargs: [EMPTY],
  audio: [EMPTY],
  moderation: [EMPTY],
};

/**
 * Harmless: a prediction only saves time, nothing is ever stored, and models
 * that know of verbosity are not served.
 */
export const ignoredChatFields: ReadonlySet<string> = new Set(['prediction', 'store', 'verbosity']);
