// What clients of the protocol count on in answers and chunks alike, beside the text.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bodyOf, eventsOf, FINGERPRINT, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

const CHAT = {
  messages: [{ role: 'user', content: 'Hello' }],
  max_tokens: 4,
  ignore_eos: true,
  temperature: 0,
};
const COMPLETION = { prompt: 'Hello', max_tokens: 4, ignore_eos: true, temperature: 0 };
const DETAILS = {
  reasoning_tokens: 0,
  audio_tokens: 0,
  accepted_prediction_tokens: 0,
  rejected_prediction_tokens: 0,
};

async function chunksOf(path: string, body: object, server = svc) {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  const response = await server.post(path, { ...body, stream: true, stream_options });
  return eventsOf(await response.text())
    .slice(0, -1)
    .map((data) => JSON.parse(data));
}

describe.each([
  ['/v1/chat/completions', CHAT],
  ['/v1/completions', COMPLETION],
])('%s', (path, body) => {
  it('names what determines its bytes, the same in the answer and in every chunk', async () => {
    const whole = await bodyOf(await svc.post(path, body));
    expect(whole.system_fingerprint).toEqual(FINGERPRINT);
    const chunks = await chunksOf(path, body);
    expect(new Set(chunks.map(({ system_fingerprint: name }) => name))).toEqual(
      new Set([whole.system_fingerprint]),
    );
  });

  it('has another fingerprint with other weights, and the same with the same', async () => {
    const fingerprints = [];
    for (const seed of [5, 6]) {
      const other = await startTestServer({ model: { seed } });
      fingerprints.push((await bodyOf(await other.post(path, body))).system_fingerprint);
      await other.close();
    }
    const own = (await bodyOf(await svc.post(path, body))).system_fingerprint;
    expect(fingerprints[0]).toBe(own);
    expect(fingerprints[1]).not.toBe(own);
  });

  it('tells the kinds of tokens wherever it tells the usage', async () => {
    const { usage } = await bodyOf(await svc.post(path, body));
    expect(usage.completion_tokens_details).toEqual(DETAILS);
    for (const chunk of await chunksOf(path, body)) {
      expect(chunk.usage.completion_tokens_details).toEqual(DETAILS);
    }
  });
});

it('log-probabilities of a chat say that nothing was refused', async () => {
  const body = { ...CHAT, logprobs: true, top_logprobs: 1 };
  const { choices } = await bodyOf(await svc.post('/v1/chat/completions', body));
  expect(choices[0].logprobs).toEqual({ content: expect.any(Array), refusal: null });
  const told = (await chunksOf('/v1/chat/completions', body))
    .map((chunk) => chunk.choices[0]?.logprobs)
    .filter((logprobs) => logprobs != null);
  expect(told).toHaveLength(4);
  for (const logprobs of told) expect(logprobs).toEqual({ content: expect.any(Array), refusal: null });
});

it('the message of a chat has no annotations and no function call', async () => {
  const { choices } = await bodyOf(await svc.post('/v1/chat/completions', CHAT));
  expect(choices[0].message.annotations).toEqual([]);
  expect(Object.keys(choices[0].message)).not.toContain('function_call');
});
