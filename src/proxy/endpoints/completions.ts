// /v1/completions: one prompt or a list of them, each a text or a packed list of token ids.

import { chunkStream } from './chunk-stream.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { generationTraits } from './generation-traits.ts';
import { numTokensOf, Prompt } from './prompt.ts';

export const completions: EndpointAdapter = {
  ...chunkStream,
  path: '/v1/completions',
  readRequest(body) {
    const prompts = promptsOf(body.prompt);
    const longest = prompts.reduce<number>((max, prompt) => Math.max(max, numTokensOf(prompt)), 0);
    return generationTraits(body, new Prompt(Math.max(1, prompts.length), longest, () => prompts[0]));
  },
};

function promptsOf(prompt: unknown): readonly unknown[] {
  if (Array.isArray(prompt)) return prompt;
  return prompt == null ? [] : [prompt];
}
