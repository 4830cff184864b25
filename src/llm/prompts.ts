// The forms in which a program may give prompts to `LLM`, made one.

import { InvalidRequestError } from '../errors.ts';

/** Text, token ids, or either with its name. */
export type PromptInput =
  | string
  | readonly number[]
  | { readonly prompt: string }
  | { readonly prompt_token_ids: readonly number[] };

/** One prompt or a list of them; a list of numbers is one prompt. */
export type PromptsInput = PromptInput | readonly PromptInput[];

export interface NormalisedPrompt {
  /** Null for a prompt given as token ids. */
  readonly text: string | null;
  readonly tokenIds: readonly number[] | null;
}

/** @throws InvalidRequestError naming the place of a prompt that is none of the forms. */
export function normalisePrompts(prompts: PromptsInput): NormalisedPrompt[] {
  return toList(prompts).map((prompt, index) => normalisePrompt(prompt, `prompts[${index}]`));
}

function toList(prompts: PromptsInput): readonly PromptInput[] {
  if (!Array.isArray(prompts) || isTokenIds(prompts)) return [prompts as PromptInput];
  return prompts;
}

function isTokenIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'number');
}

/**
 * @param path of the prompt, for errors.
 * @throws InvalidRequestError for what is none of the forms.
 */
export function normalisePrompt(prompt: PromptInput, path: string): NormalisedPrompt {
  if (typeof prompt === 'string') return { text: prompt, tokenIds: null };
  if (isTokenIds(prompt)) return { text: null, tokenIds: prompt };
  if (typeof prompt === 'object' && prompt !== null) {
    if ('prompt' in prompt && typeof prompt.prompt === 'string')
      return { text: prompt.prompt, tokenIds: null };
    if ('prompt_token_ids' in prompt && isTokenIds(prompt.prompt_token_ids)) {
      return { text: null, tokenIds: prompt.prompt_token_ids };
    }
  }
  throw new InvalidRequestError(
    `${path} must be a text, a non-empty list of token ids, { prompt } or { prompt_token_ids }, ` +
      `got ${JSON.stringify(prompt)}`,
    { param: 'prompts' },
  );
}
