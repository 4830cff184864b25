// The client of both servers: a completion as a stream of token ids, and when they came.

import { createParser } from 'eventsource-parser';
import { z } from 'zod';

/** Milliseconds of the clock of `performance`. */
export interface Answer {
  readonly startedAt: number;
  /** One for each token, in their order. */
  readonly arrivals: readonly number[];
  readonly tokenIds: readonly number[];
}

const chunk = z.object({ choices: z.array(z.object({ token_ids: z.array(z.int()) })) });

/** Greedy, and past any end token. */
export async function complete(url: string, prompt: readonly number[], maxTokens: number): Promise<Answer> {
  const startedAt = performance.now();
  const asked = { prompt, max_tokens: maxTokens, temperature: 0, ignore_eos: true };
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...asked, stream: true, return_token_ids: true }),
  });
  if (!response.ok || response.body === null)
    throw new Error(`status ${response.status}: ${await response.text()}`);
  const arrivals: number[] = [];
  const tokenIds: number[] = [];
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') return;
      for (const id of chunk.parse(JSON.parse(data)).choices.flatMap(({ token_ids }) => token_ids)) {
        arrivals.push(performance.now());
        tokenIds.push(id);
      }
    },
  });
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) parser.feed(text);
  if (tokenIds.length !== maxTokens)
    throw new Error(`the server made ${tokenIds.length} tokens of ${maxTokens}`);
  return { startedAt, arrivals, tokenIds };
}

/** Token ids that no two prompts share a beginning of. */
export function randomPrompt(length: number, seed: number, vocabSize: number): number[] {
  return Array.from({ length }, (_, index) => (7919 * index + 104_729 * seed + index * index) % vocabSize);
}
