import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../helpers/until.ts';
import { bodyOf, errorOf, eventsOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({
    model: { config: { max_position_embeddings: 20_000 } },
    server: { hasDevRoutes: true },
  });
});
afterAll(() => svc.close());

/** Four blocks and a bit. */
const PROMPT = Array.from({ length: 70 }, (_, index) => 10 + index);
const REQUEST = { model: MODEL, prompt: PROMPT, temperature: 1, seed: 3, max_tokens: 20, ignore_eos: true };

async function ask(body: object = {}, server = svc) {
  return bodyOf(await server.post('/v1/completions', { ...REQUEST, ...body }));
}

const cachedOf = (answer: { usage: { prompt_tokens_details: { cached_tokens: number } } }): number =>
  answer.usage.prompt_tokens_details.cached_tokens;

const reset = (server = svc) => server.post('/reset_prefix_cache', {});

describe('cached_tokens', () => {
  it('tells how much of the prompt came from the cache, streaming or not', async () => {
    await reset();
    expect(cachedOf(await ask())).toBe(0);
    const again = await svc.client.completions.create(REQUEST);
    expect(again.usage!.prompt_tokens_details!.cached_tokens).toBe(64);
    const stream_options = { include_usage: true };
    const stream = await svc.client.completions.create({ ...REQUEST, stream: true, stream_options });
    const usages = [];
    for await (const { usage } of stream) usages.push(usage);
    expect(usages.at(-1)).toEqual(again.usage);
  });

  it('is told for chats, too', async () => {
    await reset();
    const messages = [
      { role: 'user' as const, content: 'one and two and three and four and five '.repeat(4) },
    ];
    const request = { ...REQUEST, prompt: undefined, messages };
    const [first, second] = [
      await svc.client.chat.completions.create(request),
      await svc.client.chat.completions.create(request),
    ];
    expect(first.usage!.prompt_tokens_details!.cached_tokens).toBe(0);
    expect(second.usage!.prompt_tokens_details!.cached_tokens).toBeGreaterThanOrEqual(16);
    expect(second.choices).toEqual(first.choices);
  });

  it('is what the prompt found, whichever of several samples is the best', async () => {
    const found: number[] = [];
    for (const seed of [1, 2, 3, 4]) {
      await reset();
      found.push(cachedOf(await ask({ seed, best_of: 4 })));
    }
    expect(found).toEqual([0, 0, 0, 0]);
    expect(cachedOf(await ask({ best_of: 4 }))).toBe(64);
  });

  it('is left out with --no-enable-prompt-tokens-details', async () => {
    const quiet = await startTestServer({ server: { showsCachedTokens: false } });
    expect(Object.keys((await ask({}, quiet)).usage)).not.toContain('prompt_tokens_details');
    const stream_options = { include_usage: true };
    const stream = await quiet.post('/v1/completions', { ...REQUEST, stream: true, stream_options });
    const last = JSON.parse(eventsOf(await stream.text()).at(-2)!);
    expect(Object.keys(last.usage)).not.toContain('prompt_tokens_details');
    await quiet.close();
  });
});

describe('a hit of the prefix cache', () => {
  it.each([
    {},
    { n: 3, logprobs: 5 },
    { echo: true, logprobs: 2 },
    { prompt_logprobs: 3 },
    { temperature: 0, presence_penalty: 1, repetition_penalty: 1.3 },
    { stop: ['e'], min_tokens: 3 },
  ])('changes no byte of the answer to %j', async (body) => {
    await reset();
    const cold = await ask(body);
    const warm = await ask(body);
    expect(JSON.stringify(warm.choices)).toBe(JSON.stringify(cold.choices));
    await ask({ prompt: [...PROMPT.slice(0, 40), 7, 8, 9] });
    expect(JSON.stringify((await ask(body)).choices)).toBe(JSON.stringify(cold.choices));
  });

  it('changes no byte of a stream', async () => {
    await reset();
    const request = { ...REQUEST, stream: true, logprobs: 2, request_id: 'same' };
    const bytes = async (): Promise<string> =>
      (await (await svc.post('/v1/completions', request)).text()).replaceAll(/"created":\d+/g, '');
    expect(await bytes()).toBe(await bytes());
  });

  it('is only for requests of the same cache_salt', async () => {
    await reset();
    const plain = await ask();
    const salted = await ask({ cache_salt: 'one' });
    expect([cachedOf(plain), cachedOf(salted)]).toEqual([0, 0]);
    expect(cachedOf(await ask({ cache_salt: 'one' }))).toBe(64);
    expect(cachedOf(await ask({ cache_salt: 'two' }))).toBe(0);
    expect(salted.choices).toEqual(plain.choices);
  });

  it('is only for requests of the same cache_salt where that is of beams or of a chat, too', async () => {
    await reset();
    await ask({ cache_salt: 'one', use_beam_search: true, n: 2, max_tokens: 1 });
    expect(cachedOf(await ask())).toBe(0);
    const content = 'one and two and three and four and five '.repeat(4);
    const chat = { model: MODEL, messages: [{ role: 'user', content }], max_tokens: 1 };
    const cachedOfChat = async (cache_salt: string): Promise<number> =>
      cachedOf(await bodyOf(await svc.post('/v1/chat/completions', { ...chat, cache_salt })));
    expect([await cachedOfChat('one'), await cachedOfChat('two')]).toEqual([0, 0]);
    expect(await cachedOfChat('one')).toBeGreaterThan(0);
  });
});

describe('POST /reset_prefix_cache', () => {
  it('forgets what was cached and answers true', async () => {
    await ask();
    expect(cachedOf(await ask())).toBe(64);
    const response = await reset();
    expect(response.headers.get('content-type')).toContain('application/json');
    expect(await bodyOf(response)).toBe(true);
    expect(cachedOf(await ask())).toBe(0);
  });

  it('answers false while requests run, and forgets nothing', async () => {
    await ask();
    const controller = new AbortController();
    const endless = { ...REQUEST, prompt: 'Hello', max_tokens: 19_000 };
    const running = svc.client.completions.create(endless, { signal: controller.signal });
    running.catch(() => {});
    await until(async () => (await svc.engine.stats()).running === 1);
    expect(await bodyOf(await reset())).toBe(false);
    controller.abort();
    await until(async () => (await svc.engine.stats()).running === 0);
    expect(cachedOf(await ask())).toBe(64);
  });

  it('needs a key where the server has keys, and is not there without the mode for it', async () => {
    const guarded = await startTestServer({ server: { apiKeys: ['secret'], hasDevRoutes: true } });
    expect(await errorOf(await reset(guarded))).toMatchObject({ status: 401 });
    const authorization = { authorization: 'Bearer secret' };
    expect((await guarded.post('/reset_prefix_cache', {}, authorization)).status).toBe(200);
    await guarded.close();
    const usual = await startTestServer();
    expect(await errorOf(await reset(usual))).toMatchObject({ status: 404 });
    await usual.close();
  });

  it('takes a request without a body', async () => {
    const response = await fetch(`${svc.url}/reset_prefix_cache`, { method: 'POST' });
    expect(await bodyOf(response)).toBe(true);
    expect(await isIdle(svc.engine)).toBe(true);
  });
});
