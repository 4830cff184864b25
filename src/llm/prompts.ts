// Turns the forms in which a program may give prompts to `LLM` into the engine's one form.

import * as z from 'zod';
import type { Prompt } from '../engine/inference-engine.ts';
import type { ScoredTexts } from '../engine/pooling/score-plan.ts';
import { InvalidRequestError } from '../errors.ts';
import { checkNumImages } from '../util/image-source.ts';
import { summary } from '../util/preview.ts';

/** Text, token ids, or either with its name; with its name a text may have images, too. */
export type PromptInput =
  | string
  | readonly number[]
  | { readonly prompt: string; readonly images?: readonly Uint8Array[] | undefined }
  | { readonly prompt_token_ids: readonly number[] };

/** One prompt or a list of them; a list of numbers is one prompt. */
export type PromptsInput = PromptInput | readonly PromptInput[];

/**
 * @param maxImages of each prompt; null where the model reads only text.
 * @throws InvalidRequestError naming the index of a prompt that has none of the forms.
 */
export function readPrompts(prompts: PromptsInput, maxImages: number | null): Prompt[] {
  return toList(prompts).map((prompt, index) => readPrompt(prompt, `prompts[${index}]`, maxImages));
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
 * @throws InvalidRequestError where it has none of the forms, or more than its form has.
 */
export function readPrompt(prompt: PromptInput, path: string, maxImages: number | null): Prompt {
  if (typeof prompt === 'string') return { text: prompt };
  if (isTokenIds(prompt)) return { tokenIds: prompt };
  if (typeof prompt === 'object' && prompt !== null) {
    if ('prompt' in prompt && typeof prompt.prompt === 'string') {
      expectOnly(prompt, ['prompt', 'images'], path);
      return { text: prompt.prompt, ...imagesOf(prompt, path, maxImages) };
    }
    if ('prompt_token_ids' in prompt && isTokenIds(prompt.prompt_token_ids)) {
      expectOnly(prompt, ['prompt_token_ids'], path);
      return { tokenIds: prompt.prompt_token_ids };
    }
  }
  throw new InvalidRequestError(
    `${path} must be a text, a non-empty list of token ids, { prompt } or { prompt_token_ids }, ` +
      `got ${JSON.stringify(summary(prompt))}`,
    { param: 'prompts' },
  );
}

/** What else it holds, such as a film, would be no part of what the model reads. */
function expectOnly(prompt: object, fields: readonly string[], path: string): void {
  const other = Object.entries(prompt).find(([name, value]) => !fields.includes(name) && value != null)?.[0];
  if (other === undefined) return;
  throw new InvalidRequestError(
    `${path} has ${other} beside ${fields[0]}, and only ${fields.join(' and ')} ${fields.length > 1 ? 'are' : 'is'} read: leave ${other} out`,
    { param: 'prompts' },
  );
}

/** Each as the file has it, in the order of their places in the text. */
const imageFiles = z.array(z.instanceof(Uint8Array)).nullish();

function imagesOf(prompt: object, path: string, maxImages: number | null): Pick<Prompt, 'images'> {
  const parsed = imageFiles.safeParse('images' in prompt ? prompt.images : null);
  if (!parsed.success) {
    throw new InvalidRequestError(
      `${path}.images must be a list of the bytes of image files, as readFile() gives them`,
      { param: 'prompts' },
    );
  }
  const images = parsed.data ?? [];
  checkNumImages(images.length, maxImages, { path, param: 'prompts' });
  return images.length > 0 ? { images } : {};
}

/** Null for token ids. */
export function textOf(prompt: Prompt): string | null {
  return 'text' in prompt ? prompt.text : null;
}

/** @throws InvalidRequestError where there is no text, or the lists differ in length and the first is not one text for all. */
export function readPairs(
  first: string | readonly string[],
  second: string | readonly string[],
): ScoredTexts {
  const lists = [first, second].map((texts) => (typeof texts === 'string' ? [texts] : texts));
  const [a, b] = [lists[0]!, lists[1]!];
  const areTexts = lists.every(
    (list) => Array.isArray(list) && list.length > 0 && list.every((text) => typeof text === 'string'),
  );
  if (!areTexts || (a.length !== 1 && a.length !== b.length)) {
    throw new InvalidRequestError(
      'score() takes two texts, one text and a list of texts, or two lists of as many texts',
      { param: 'prompts' },
    );
  }
  return { first: a, second: b, params: ['the first text', 'the second text'], kinds: ['text', 'text'] };
}
