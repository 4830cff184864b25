// POST /v1/chat/completions on the wire: the request that is accepted and the answers that it gets. The route reads
// the one and writes the others.

import { z } from 'zod';
import { chatMessageSchema } from '../../tokenizer/chat-messages.ts';
import { commonFields, unavailableFields } from './common-fields.ts';
import type { PromptLogprobs } from './logprobs.ts';
import type { FinishReason, Usage } from './usage.ts';

/** Rendering them is work of the main thread, about 10 microseconds each. */
const MAX_MESSAGES = 4096;

export const chatCompletionSchema = z.looseObject({
  ...commonFields,
  messages: z.array(chatMessageSchema).min(1).max(MAX_MESSAGES),
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.boolean().nullish(),
  /** Most probable tokens beside each token; -1 for the whole vocabulary. */
  top_logprobs: z.int().min(-1).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  /** This server has no voice. */
  modalities: z.array(z.literal('text')).nullish(),
  tools: z.array(z.unknown()).min(1).nullish(),
});

export type ChatCompletionRequest = z.output<typeof chatCompletionSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableChatFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableFields,
  tools: [],
  tool_choice: ['none'],
  functions: [],
  function_call: ['none'],
  include_reasoning: [true],
  documents: [],
  chat_template: [],
  mm_processor_kwargs: [],
  media_io_kwargs: [],
  audio: [],
  web_search_options: [],
  verbosity: ['medium'],
  store: [false],
};

/** Harmless on their own: without tools nothing is called, and a prediction only saves time. */
export const ignoredChatFields: ReadonlySet<string> = new Set(['parallel_tool_calls', 'prediction']);

export interface ChatMessageBody {
  readonly role: string;
  readonly content: string;
  readonly refusal: null;
  readonly annotations: null;
  readonly audio: null;
  readonly function_call: null;
  readonly tool_calls: readonly [];
  readonly reasoning: null;
}

export interface ChatTokenLogprob {
  readonly token: string;
  readonly logprob: number;
  /** Null without a tokenizer. */
  readonly bytes: readonly number[] | null;
}

export interface ChatLogprobs {
  readonly content: readonly (ChatTokenLogprob & { readonly top_logprobs: readonly ChatTokenLogprob[] })[];
}

export interface ChatChoice {
  readonly index: number;
  readonly message: ChatMessageBody;
  readonly logprobs: ChatLogprobs | null;
  readonly finish_reason: FinishReason;
  readonly stop_reason: number | string | null;
  readonly token_ids: readonly number[] | null;
}

export interface ChatCompletionResponse {
  readonly id: string;
  readonly object: 'chat.completion';
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly ChatChoice[];
  readonly service_tier: null;
  readonly system_fingerprint: null;
  readonly usage: Usage;
  readonly prompt_logprobs: PromptLogprobs | null;
  readonly prompt_token_ids: readonly number[] | null;
  readonly kv_transfer_params: null;
}
