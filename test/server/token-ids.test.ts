import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bodyOf, errorOf, eventsOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
let withText: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ model: { tokenizer: false }, engine: { skipTokenizerInit: true } });
  withText = await startTestServer();
});
afterAll(async () => {
  await svc.close();
  await withText.close();
});

const REQUEST = { model: MODEL, prompt: [5, 6, 7], temperature: 0, max_tokens: 8, ignore_eos: true };

describe('a server without a tokenizer', () => {
  it('takes token ids and gives the ids that a server with one would give', async () => {
    const ids = await bodyOf(await svc.post('/v1/completions', REQUEST));
    const expected = await bodyOf(
      await withText.post('/v1/completions', { ...REQUEST, return_token_ids: true }),
    );
    expect(ids.choices[0]).toEqual({ ...expected.choices[0], text: '' });
    expect(ids.choices[0].token_ids).toHaveLength(8);
    expect(ids.usage).toEqual(expected.usage);
  });

  it('streams an id a chunk', async () => {
    const response = await svc.post('/v1/completions', { ...REQUEST, stream: true });
    const chunks = eventsOf(await response.text())
      .slice(0, -1)
      .map((event) => JSON.parse(event).choices[0]);
    const { choices } = await bodyOf(await svc.post('/v1/completions', REQUEST));
    expect(chunks.map(({ token_ids }) => token_ids)).toEqual(choices[0].token_ids.map((id: number) => [id]));
  });

  it.each([
    ['/v1/completions', { prompt: 'Hello' }, 'prompt'],
    ['/v1/completions', { prompt: ['Hello'] }, 'prompt'],
    ['/v1/completions', { prompt: [5], stop: 'a' }, 'stop'],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }] }, 'messages'],
  ])('refuses text at %s (%j)', async (path, body, param) => {
    const error = await errorOf(await svc.post(path, body));
    expect(error).toMatchObject({ status: 400, param, message: expect.stringContaining('tokenizer') });
  });
});
