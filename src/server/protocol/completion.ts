// POST /v1/completions on the wire: the schema of requests, the types of answers.

import { z } from 'zod';
import { commonFields, unavailableFields } from './common-fields.ts';
import type { PromptLogprobs } from './logprobs.ts';
import { promptSchema } from './prompt.ts';
import type { FinishReason, Usage } from './usage.ts';

export const completionSchema = z.looseObject({
  ...commonFields,
  prompt: promptSchema,
  /** 0 is possible with `echo`: the prompt alone comes back. */
  max_tokens: z.int().min(0, 'must be at least 1').nullish(),
  /** Most probable tokens beside each token; -1 for the whole vocabulary. */
  logprobs: z.int().min(-1).nullish(),
});

export type CompletionRequest = z.output<typeof completionSchema>;

/** Refused, with the values that ask for nothing. */
export const unavailableCompletionFields: Readonly<Record<string, readonly unknown[]>> = {
  ...unavailableFields,
  suffix: [''],
  prompt_embeds: [],
};

/** One entry a token in each list. */
export interface CompletionLogprobs {
  /** Characters (code points) of the choice's text before the token. */
  readonly text_offset: readonly number[];
  /** Null for the first token of an echoed prompt. */
  readonly token_logprobs: readonly (number | null)[];
  readonly tokens: readonly string[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
}

export interface CompletionChoice {
  readonly index: number;
  readonly text: string;
  readonly logprobs: CompletionLogprobs | null;
  readonly finish_reason: FinishReason;
  readonly stop_reason: number | string | null;
  readonly token_ids: readonly number[] | null;
  readonly prompt_logprobs: PromptLogprobs | null;
  readonly prompt_token_ids: readonly number[] | null;
}

export interface CompletionResponse {
  readonly id: string;
  readonly object: 'text_completion';
  /** Unix seconds. */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly CompletionChoice[];
  readonly service_tier: null;
  readonly system_fingerprint: string;
  readonly usage: Usage;
  readonly kv_transfer_params: null;
}
