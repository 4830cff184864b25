// The fields that /v1/responses and /v1/messages share with chat completions, and take beside their own: how the one answer
// is sampled and served, and what it must be.

import * as z from 'zod';
import { commonFields } from './common-fields.ts';
import { templateVariables } from './template-variables.ts';

const sharedFields = z.object(commonFields).pick({
  model: true,
  stream: true,
  stream_interval: true,
  temperature: true,
  top_p: true,
  top_k: true,
  min_p: true,
  seed: true,
  stop: true,
  stop_token_ids: true,
  include_stop_str_in_output: true,
  ignore_eos: true,
  min_tokens: true,
  presence_penalty: true,
  frequency_penalty: true,
  repetition_penalty: true,
  logit_bias: true,
  allowed_token_ids: true,
  bad_words: true,
  structured_outputs: true,
  truncate_prompt_tokens: true,
  truncation_side: true,
  repetition_detection: true,
  skip_special_tokens: true,
  spaces_between_special_tokens: true,
  request_id: true,
  priority: true,
  cache_salt: true,
  svc_resume: true,
}).shape;

export const answerFields = {
  ...sharedFields,
  chat_template_kwargs: templateVariables.nullish(),
};

export type AnswerFields = z.output<z.ZodObject<typeof answerFields>>;
