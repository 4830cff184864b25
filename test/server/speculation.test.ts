// Tokens guessed ahead, as a client of the server sees them: not at all, but for the counters of /metrics.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODEL, startTestServer, type TestServer } from './test-server.ts';

const NGRAM = { method: 'ngram', numSpeculativeTokens: 4, promptLookupMax: 3, promptLookupMin: 1 } as const;
const MODEL_FILES = { seed: 3 };

let guessing: TestServer;
let plain: TestServer;
beforeAll(async () => {
  guessing = await startTestServer({ model: MODEL_FILES, engine: { speculative: NGRAM } });
  plain = await startTestServer({ model: MODEL_FILES });
});
afterAll(() => Promise.all([guessing?.close(), plain?.close()]));

/** The whole body but for what names the answer. */
async function bodyOf(svc: TestServer, body: object): Promise<string> {
  const response = await svc.post('/v1/completions', { model: MODEL, ...body });
  expect(response.status).toBe(200);
  const text = await response.text();
  return text.replace(/"id":"[^"]*"|"created":\d+/g, '');
}

async function counters(svc: TestServer): Promise<Map<string, number>> {
  const text = await (await fetch(`${svc.url}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith('svc:spec_decode_'));
  return new Map(
    lines.map((line) => {
      const [, name = '', position = '', value = ''] =
        /^svc:spec_decode_(\w+)\{(?:position="(\d)",)?.*\} (\d+)$/.exec(line) ?? [];
      return [name + position, Number(value)];
    }),
  );
}

describe('a server that guesses tokens ahead', () => {
  it.each([
    ['greedily', { temperature: 0, logprobs: 2 }],
    [
      'by chance, twice, with penalties',
      { temperature: 0.8, seed: 5, n: 2, repetition_penalty: 1.2, logprobs: 1 },
    ],
    [
      'with a stop string in the midst',
      { temperature: 0, stop: ['e', 'the'], include_stop_str_in_output: true },
    ],
    [
      'with bad words, a bias and min_tokens',
      { temperature: 0.5, seed: 1, bad_words: ['a b'], logit_bias: { 50: 5 }, min_tokens: 9 },
    ],
  ])('writes the same stream and the same answer %s, event for event', async (_, body) => {
    const asked = { prompt: 'the cat and the dog and the cat and', max_tokens: 80, ...body };
    expect(await bodyOf(guessing, asked)).toBe(await bodyOf(plain, asked));
    const usage = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
    const [streamed, expected] = await Promise.all([
      bodyOf(guessing, { ...asked, ...usage }),
      bodyOf(plain, { ...asked, ...usage }),
    ]);
    // The two samples of a stream come in any order among each other.
    expect(streamed.split('\n\n').toSorted()).toEqual(expected.split('\n\n').toSorted());
  });

  it('counts in /metrics what was guessed and what was right', async () => {
    const before = await counters(guessing);
    await bodyOf(guessing, { prompt: 'a', temperature: 0, max_tokens: 100, ignore_eos: true });
    const after = await counters(guessing);
    const added = (name: string): number => after.get(name)! - before.get(name)!;
    expect(added('num_drafts_total')).toBeGreaterThan(5);
    expect(added('num_draft_tokens_total')).toBeGreaterThan(added('num_accepted_tokens_total'));
    expect(added('num_accepted_tokens_total')).toBeGreaterThan(20);
    const perPosition = [0, 1, 2, 3].map((position) => added(`num_accepted_tokens_per_pos_total${position}`));
    expect(perPosition.reduce((sum, count) => sum + count)).toBe(added('num_accepted_tokens_total'));
    expect(perPosition).toEqual(perPosition.toSorted((a, b) => b - a));
  });

  it('has no such counters where nothing is guessed', async () => {
    expect((await counters(plain)).size).toBe(0);
  });
});
