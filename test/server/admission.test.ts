import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../helpers/until.ts';
import { bodyOf, errorOf, eventsOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

/** Runs for many seconds unless somebody stops it. */
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };
const LONG_CONTEXT = { config: { max_position_embeddings: 20_000 } };

async function numInEngine({ engine }: TestServer): Promise<number> {
  const { running, waiting } = await engine.stats();
  return running + waiting;
}

describe('a bounded waiting queue', () => {
  let svc: TestServer;
  const controllers: AbortController[] = [];
  beforeAll(async () => {
    svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { maxNumSeqs: 2, maxQueuedRequests: 3 },
    });
  });
  afterAll(() => svc.close());
  afterEach(async () => {
    for (const controller of controllers.splice(0)) controller.abort();
    await until(() => isIdle(svc.engine));
  });

  /** Sends requests that stay in the engine until the test is over. */
  async function occupy(count: number): Promise<void> {
    const before = await numInEngine(svc);
    for (let sent = 0; sent < count; sent += 1) {
      const controller = new AbortController();
      controllers.push(controller);
      svc.client.completions.create(ENDLESS, { signal: controller.signal }).catch(() => {});
    }
    await until(async () => (await numInEngine(svc)) === before + count);
  }

  it('answers 429 with Retry-After beyond what runs and may wait, and takes requests again later', async () => {
    await occupy(5);
    for (const stream of [false, true]) {
      const response = await svc.post('/v1/completions', { ...ENDLESS, stream });
      expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect(await errorOf(response)).toMatchObject({
        status: 429,
        type: 'OverloadedError',
        message: expect.stringMatching(/5 sequences run or wait.*--max-num-seqs.*--max-queued-requests/),
      });
    }
    // It does not even look at what it cannot take.
    for (const path of ['/v1/completions', '/tokenize', '/v1/messages/count_tokens'])
      expect((await svc.post(path, { prompt: 5 })).status).toBe(429);
    const { client } = svc;
    await expect(client.completions.create({ ...ENDLESS })).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    for (const controller of controllers) controller.abort();
    await until(() => isIdle(svc.engine));
    const { choices } = await client.completions.create({ ...ENDLESS, max_tokens: 2 });
    expect(choices).toHaveLength(1);
  });

  it('takes the last that still fits', async () => {
    await occupy(4);
    await occupy(1);
    expect(await numInEngine(svc)).toBe(5);
  });

  it('takes a request that comes alone, however many samples it has', async () => {
    const { choices } = await svc.client.completions.create({ ...ENDLESS, n: 9, max_tokens: 2 });
    expect(choices).toHaveLength(9);
  });

  it('holds against requests that come at the same moment', async () => {
    await occupy(1);
    const sent = Array.from({ length: 12 }, () => {
      const controller = new AbortController();
      controllers.push(controller);
      return svc.client.completions
        .create({ ...ENDLESS }, { signal: controller.signal })
        .catch((error: { status?: number }) => error.status);
    });
    let refused = 0;
    for (const one of sent) void one.then((status) => (refused += status === 429 ? 1 : 0));
    await until(() => refused === 8);
    expect(await numInEngine(svc)).toBe(5);
  });
});

describe('a request of many samples', () => {
  it('leaves slots and places of the queue to others, and is answered whole', async () => {
    const svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { maxNumSeqs: 4, maxQueuedRequests: 2 },
    });
    const controller = new AbortController();
    const heavy = { ...ENDLESS, n: 64, prompt: ['a', 'b'] };
    svc.client.completions.create(heavy, { signal: controller.signal }).catch(() => {});
    await until(async () => (await svc.engine.stats()).running === 3);
    for (const max_tokens of [1, 5]) {
      const { choices } = await svc.client.completions.create({ ...ENDLESS, max_tokens });
      expect(choices[0]!.finish_reason).toBe('length');
    }
    expect((await svc.engine.stats()).running).toBe(3);
    controller.abort();
    await until(() => isIdle(svc.engine));
    const many = { ...ENDLESS, prompt: ['a', 'b'], n: 40, max_tokens: 2, seed: 4 };
    const { choices, usage } = await svc.client.completions.create(many);
    expect(choices.map(({ index }) => index)).toEqual(Array.from({ length: 80 }, (_, index) => index));
    expect(usage?.completion_tokens).toBe(160);
    const alone = await svc.client.completions.create({ ...many, n: 2 });
    expect(alone.choices.slice(0, 2).map(({ text }) => text)).toEqual(
      choices.slice(0, 2).map(({ text }) => text),
    );
    await svc.close();
  });

  it('ends for those of its samples, too, that were still held back when its client left', async () => {
    const svc = await startTestServer({ model: LONG_CONTEXT, engine: { maxNumSeqs: 4 } });
    const controller = new AbortController();
    const { signal } = controller;
    svc.client.completions.create({ ...ENDLESS, n: 100 }, { signal }).catch(() => {});
    await until(async () => (await svc.engine.stats()).running === 3);
    controller.abort();
    await until(() => isIdle(svc.engine));
    await until(() => svc.server.numInFlight === 0);
    expect(await isIdle(svc.engine)).toBe(true);
    await svc.close();
  });
});

describe('requests that fill all slots together', () => {
  it('give one up to a request of the same key that comes later, and are answered as if alone', async () => {
    const svc = await startTestServer({ model: LONG_CONTEXT, engine: { maxNumSeqs: 4 } });
    const controllers = [new AbortController(), new AbortController()];
    for (const { signal } of controllers) {
      svc.client.completions.create({ ...ENDLESS, n: 3 }, { signal }).catch(() => {});
    }
    const numRunning = async (): Promise<number> => (await svc.engine.stats()).running;
    await until(async () => (await numRunning()) === 4);
    const seeded = { ...ENDLESS, n: 2, max_tokens: 200, temperature: 1, seed: 4 };
    const many = await svc.client.completions.create(seeded);
    await until(async () => (await numRunning()) === 4);
    expect((await svc.engine.stats()).preemptions).toBeGreaterThan(0);
    for (const controller of controllers) controller.abort();
    await until(() => isIdle(svc.engine));
    const alone = await svc.client.completions.create(seeded);
    expect(many.choices).toEqual(alone.choices);
    await svc.close();
  });

  it('keep their own answers when they give up slots', async () => {
    const svc = await startTestServer({ model: LONG_CONTEXT, engine: { maxNumSeqs: 4 } });
    const numRunning = async (): Promise<number> => (await svc.engine.stats()).running;
    const heavy = { ...ENDLESS, n: 3, max_tokens: 1000, temperature: 1, seed: 1 };
    const first = svc.client.completions.create(heavy);
    await until(async () => (await numRunning()) === 3);
    const other = new AbortController();
    svc.client.completions.create(ENDLESS, { signal: other.signal }).catch(() => {});
    await until(async () => (await numRunning()) === 4);
    await svc.client.completions.create({ ...ENDLESS, max_tokens: 1 });
    expect((await svc.engine.stats()).preemptions).toBe(1);
    other.abort();
    const together = await first;
    const alone = await svc.client.completions.create(heavy);
    expect(together.choices).toEqual(alone.choices);
    await svc.close();
  });
});

describe('callers with keys of their own', () => {
  it('share the queue: who has filled it is told to come again, another one is served next', async () => {
    const svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { maxNumSeqs: 1, maxQueuedRequests: 5 },
      server: { apiKeys: ['heavy', 'light'] },
    });
    const ask = (apiKey: string, max_tokens: number, signal?: AbortSignal) =>
      new OpenAI({ baseURL: `${svc.url}/v1`, apiKey, maxRetries: 0 }).completions.create(
        { ...ENDLESS, max_tokens },
        { signal },
      );
    const first = new AbortController();
    ask('heavy', ENDLESS.max_tokens, first.signal).catch(() => {});
    const done: string[] = [];
    const askFor = async (key: string): Promise<void> => {
      await ask(key, 20);
      done.push(key);
    };
    const asked = ['heavy', 'heavy', 'heavy', 'heavy', 'heavy'].map(askFor);
    await until(async () => (await numInEngine(svc)) === 6);
    await expect(ask('heavy', 1)).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    asked.push(askFor('light'));
    await until(async () => (await numInEngine(svc)) === 7);
    first.abort();
    await Promise.all(asked);
    // In the order in which they came, it would be the last.
    expect(done.indexOf('light')).toBeLessThan(2);
    await svc.close();
  });
});

describe('a request that takes longer than --request-timeout', () => {
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { device: 'reference', maxNumSeqs: 1 },
      // The machine may stall for a second, and first tokens are to come in time.
      server: { requestTimeoutMs: 1500 },
    });
  });
  afterAll(() => svc.close());
  afterEach(() => until(() => isIdle(svc.engine)));

  it('is answered 504 and its blocks are freed', async () => {
    const error = await errorOf(await svc.post('/v1/completions', ENDLESS));
    expect(error).toMatchObject({
      status: 504,
      type: 'RequestTimeoutError',
      message: expect.stringMatching(/1\.5 seconds.*--request-timeout/),
    });
    await until(() => isIdle(svc.engine));
  });

  it('ends a stream with an error event', async () => {
    const response = await svc.post('/v1/completions', { ...ENDLESS, stream: true });
    expect(response.status).toBe(200);
    const events = eventsOf(await response.text());
    expect(JSON.parse(events.at(-2)!)).toMatchObject({ error: { code: 504, type: 'RequestTimeoutError' } });
    expect(JSON.parse(events[0]!)).toMatchObject({ object: 'text_completion' });
    expect(events.at(-1)).toBe('[DONE]');
  });

  it('is told to one that only waits, too', async () => {
    const [first, second] = await Promise.all([
      svc.post('/v1/completions', ENDLESS),
      svc.post('/v1/chat/completions', { ...ENDLESS, messages: [{ role: 'user', content: 'Hello' }] }),
    ]);
    expect([first!.status, second!.status]).toEqual([504, 504]);
  });

  it('leaves a request alone that is done in time', async () => {
    const { choices } = await svc.client.completions.create({ ...ENDLESS, max_tokens: 2 });
    expect(choices[0]!.finish_reason).toBe('length');
    // What is told to a later one would have been told to it by then.
    expect((await svc.post('/v1/completions', ENDLESS)).status).toBe(504);
    expect((await fetch(`${svc.url}/health`)).status).toBe(200);
  });
});

describe('a stream that nobody reads', () => {
  it('holds no blocks once it has taken longer than --request-timeout', async () => {
    const svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { maxLogprobs: -1 },
      server: { requestTimeoutMs: 2500 },
    });
    const body = JSON.stringify({ ...ENDLESS, stream: true, n: 4, logprobs: -1 });
    const socket = connect(svc.server.port, '127.0.0.1');
    socket.pause();
    const head = 'POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n';
    socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
    await until(async () => (await svc.engine.stats()).running === 4);
    await until(() => isIdle(svc.engine));
    expect((await svc.engine.stats()).generationTokens).toBeLessThan(4 * ENDLESS.max_tokens);
    expect(svc.server.numInFlight).toBe(1);
    socket.destroy();
    await svc.close();
  });
});

describe('priority', () => {
  it('lets a later request with a lower number run first, with --scheduling-policy priority', async () => {
    const svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { schedulingPolicy: 'priority', maxNumSeqs: 1 },
    });
    const done: string[] = [];
    const first = new AbortController();
    svc.client.completions.create(ENDLESS, { signal: first.signal }).catch(() => {});
    await until(async () => (await numInEngine(svc)) === 1);
    const ask = async (name: string, priority: number): Promise<void> => {
      const response = await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 20, priority });
      expect(response.status).toBe(200);
      await response.text();
      done.push(name);
    };
    const asked = [ask('low', 5)];
    await until(async () => (await numInEngine(svc)) === 2);
    asked.push(ask('high', 1));
    await until(async () => (await numInEngine(svc)) === 3);
    first.abort();
    await Promise.all(asked);
    expect(done).toEqual(['high', 'low']);
    expect(
      (await bodyOf(await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 1 }))).choices,
    ).toHaveLength(1);
    await svc.close();
  });
});
