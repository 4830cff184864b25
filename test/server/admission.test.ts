import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  bodyOf,
  errorOf,
  eventsOf,
  eventually,
  isIdle,
  MODEL,
  startTestServer,
  type TestServer,
} from './test-server.ts';

/** Runs for many seconds unless somebody stops it. */
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };
const LONG_CONTEXT = { config: { max_position_embeddings: 20_000 } };

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
    await eventually(() => isIdle(svc.engine));
  });

  /** Sends a request that stays in the engine until the test is over. */
  async function occupy(n: number): Promise<void> {
    const controller = new AbortController();
    controllers.push(controller);
    svc.client.completions.create({ ...ENDLESS, n }, { signal: controller.signal }).catch(() => {});
    const before = await inEngine();
    await eventually(async () => (await inEngine()) === before + n);
  }

  async function inEngine(): Promise<number> {
    const { running, waiting } = await svc.engine.stats();
    return running + waiting;
  }

  it('answers 429 with Retry-After beyond what runs and may wait, and takes requests again later', async () => {
    await occupy(2);
    await occupy(3);
    for (const stream of [false, true]) {
      const response = await svc.post('/v1/completions', { ...ENDLESS, stream });
      expect(response.headers.get('retry-after')).toBe('1');
      expect(await errorOf(response)).toMatchObject({
        status: 429,
        type: 'OverloadedError',
        message: expect.stringMatching(/5 sequences run or wait.*--max-num-seqs.*--max-queued-requests/),
      });
    }
    const { client } = svc;
    await expect(client.completions.create({ ...ENDLESS })).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    for (const controller of controllers) controller.abort();
    await eventually(() => isIdle(svc.engine));
    const { choices } = await client.completions.create({ ...ENDLESS, max_tokens: 2 });
    expect(choices).toHaveLength(1);
  });

  it('counts every sample of every prompt, and takes the last that still fits', async () => {
    await occupy(2);
    const four = { ...ENDLESS, prompt: ['a', 'b'], n: 2, max_tokens: 2 };
    expect((await svc.post('/v1/completions', four)).status).toBe(429);
    await occupy(3);
    expect(await inEngine()).toBe(5);
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
    await eventually(() => refused === 8);
    expect(await inEngine()).toBe(5);
  });
});

describe('a request that takes longer than --request-timeout', () => {
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({
      model: LONG_CONTEXT,
      engine: { device: 'reference', maxNumSeqs: 1 },
      server: { requestTimeoutMs: 400 },
    });
  });
  afterAll(() => svc.close());
  afterEach(() => eventually(() => isIdle(svc.engine)));

  it('is answered 504 and its blocks are freed', async () => {
    const error = await errorOf(await svc.post('/v1/completions', ENDLESS));
    expect(error).toMatchObject({
      status: 504,
      type: 'RequestTimeoutError',
      message: expect.stringMatching(/0\.4 seconds.*--request-timeout/),
    });
    await eventually(() => isIdle(svc.engine));
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
    await eventually(async () => (await svc.engine.stats()).running === 4);
    await eventually(() => isIdle(svc.engine), 30_000);
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
    const ask = async (name: string, priority: number, max_tokens = 200): Promise<void> => {
      const response = await svc.post('/v1/completions', { ...ENDLESS, max_tokens, priority });
      expect(response.status).toBe(200);
      await response.text();
      done.push(name);
    };
    const inEngine = async (): Promise<number> => {
      const { running, waiting } = await svc.engine.stats();
      return running + waiting;
    };
    const asked = [ask('first', 0, 3000)];
    await eventually(async () => (await inEngine()) === 1);
    asked.push(ask('low', 5));
    await eventually(async () => (await inEngine()) === 2);
    asked.push(ask('high', 1));
    await eventually(async () => (await inEngine()) === 3);
    await Promise.all(asked);
    expect(done).toEqual(['first', 'high', 'low']);
    expect(
      (await bodyOf(await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 1 }))).choices,
    ).toHaveLength(1);
    await svc.close();
  });
});
