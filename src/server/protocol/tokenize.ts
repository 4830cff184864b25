// POST /tokenize and /detokenize on the wire: the schemas of requests and answers.

import * as z from 'zod';
import { tokenIdsOf } from '../../util/bounded-schemas.ts';
import { chatCompletionSchema } from './chat-completion.ts';

/** Numbers that a body may hold. */
const MAX_TOKENS = 300_000;

const own = { return_token_strs: z.boolean().nullish() } as const;

export const tokenizePromptSchema = z.looseObject({
  model: z.string().nullish(),
  prompt: z.string(),
  add_special_tokens: z.boolean().nullish(),
  ...own,
});

/** A chat as it would be answered: what does not belong to the prompt is without effect. */
export const tokenizeChatSchema = chatCompletionSchema.extend(own);

export const tokenizeAnswer = z.object({
  count: z.int(),
  max_model_len: z.int(),
  tokens: z.array(z.int()),
  token_strs: z.array(z.string()).nullable(),
});

export const detokenizeSchema = z.looseObject({
  model: z.string().nullish(),
  tokens: tokenIdsOf(MAX_TOKENS),
});

export const detokenizeAnswer = z.object({ prompt: z.string() });
