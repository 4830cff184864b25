// What becomes of connections that do not go their usual way: half-closed ones, slow ones, and such as end too early.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { needsIpv6 } from '../helpers/needs.ts';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { eventsOf, isIdle, startTestServer, type TestServer } from './test-server.ts';

const PATH = '/v1/completions';
const BODY = { prompt: 'Hello', max_tokens: 5, ignore_eos: true };
const ENDLESS = { ...BODY, max_tokens: 19_000 };

describe('a client that shuts down its side behind its request', () => {
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({
      model: { config: { max_position_embeddings: 20_000 } },
      engine: { maxNumSeqs: 1 },
    });
  });
  afterAll(() => svc.close());

  /** Requests wait behind it until it leaves. */
  async function occupy(): Promise<RawClient> {
    const client = new RawClient(svc.server.port, rawPost(PATH, ENDLESS));
    await until(async () => (await svc.engine.stats()).running === 1);
    return client;
  }

  it('gets its answer, and is asked meanwhile by words that clients skip', async () => {
    const other = await occupy();
    const client = new RawClient(svc.server.port, rawPost(PATH, BODY));
    client.shutDown();
    await until(() => client.received.includes('100 Continue'));
    other.leave();
    await until(() => client.isClosed);
    expect(client.answer.status).toBe(200);
    expect(JSON.parse(client.answer.body).usage.completion_tokens).toBe(5);
  });

  it('gets its stream to the end, with comments while nothing comes', async () => {
    const other = await occupy();
    const client = new RawClient(
      svc.server.port,
      rawPost(PATH, { ...BODY, stream: true }, { version: '1.0' }),
    );
    client.shutDown();
    await until(() => client.received.includes(': waiting\n\n'));
    other.leave();
    await until(() => client.isClosed);
    expect(eventsOf(client.answer.body)).toHaveLength(6);
    expect(client.answer.body).toContain('data: [DONE]');
  });

  it('is let go once it is told what was wrong with its last request', async () => {
    for (const posts of [1, 3].map((times) => rawPost(PATH, '{"prompt":').repeat(times))) {
      const client = new RawClient(svc.server.port, posts);
      client.shutDown();
      // Kept alive, the connection would be there for a minute.
      await until(() => client.isClosed);
      expect(client.answer.status).toBe(400);
    }
  });

  it('gets the answers to all that it has sent, one behind the other', async () => {
    const posts = rawPost(PATH, BODY).repeat(15);
    const client = new RawClient(svc.server.port, posts);
    client.shutDown();
    await until(() => client.isClosed);
    expect(client.received.match(/HTTP\/1\.1 200/g)).toHaveLength(15);
  });

  it.each([
    ['a whole answer', BODY, '1.1'],
    ['a stream', { ...BODY, stream: true }, '1.1'],
    ['a whole answer by HTTP/1.0, which has no such words', BODY, '1.0'],
  ])('and is gone while it waits for %s frees its request', async (_, body, version) => {
    const other = await occupy();
    const client = new RawClient(svc.server.port, rawPost(PATH, body, { version }));
    await until(async () => (await svc.engine.stats()).waiting === 1);
    client.leave();
    await until(async () => (await svc.engine.stats()).waiting === 0);
    expect(svc.server.numInFlight).toBe(1);
    other.leave();
    await until(() => isIdle(svc.engine));
  });

  it('in the middle of its body is told that this is no request', async () => {
    const client = new RawClient(svc.server.port, rawPost(PATH, '{"prompt":', { length: 100 }));
    await until(() => client.socket.bytesWritten > 100);
    client.shutDown();
    await until(() => client.isClosed);
    expect(client.answer.status).toBe(400);
    expect(JSON.parse(client.answer.body)).toMatchObject({ error: { code: 400 } });
  });
});

describe('a client that sends requests behind each other on one connection and leaves', () => {
  it.each([
    ['whole answers', false],
    ['streams', true],
  ])('frees all of them (%s)', async (_, stream) => {
    const svc = await startTestServer({ model: { config: { max_position_embeddings: 20_000 } } });
    try {
      for (const numAnswered of [0, 1]) {
        const posts = rawPost(PATH, { ...ENDLESS, stream }).repeat(3);
        const client = new RawClient(svc.server.port, rawPost(PATH, BODY).repeat(numAnswered) + posts);
        await until(async () => svc.server.numInFlight === 3 && (await svc.engine.stats()).running === 3);
        client.leave();
        await until(async () => svc.server.numInFlight === 0 && (await isIdle(svc.engine)));
      }
    } finally {
      await svc.close();
    }
  });
});

describe('a client that does not send its whole request in time', () => {
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({ server: { receiveTimeoutMs: 200 } });
  });
  afterAll(() => svc.close());

  it.each([
    ['the body', rawPost(PATH, '{"prompt":', { length: 100 })],
    ['the headers', `POST ${PATH} HTTP/1.1\r\nHost: a\r\n`],
    ['any byte of the body', rawPost(PATH, '', { length: 100 })],
  ])('(%s) is answered 408 in the standard shape and cut off', async (_, text) => {
    const client = new RawClient(svc.server.port, text);
    await until(() => client.isClosed);
    const { status, head, body } = client.answer;
    expect(status).toBe(408);
    expect(head).toContain('Connection: close');
    expect(JSON.parse(body)).toEqual({
      error: { message: expect.stringContaining('in time'), type: 'Request Timeout', param: null, code: 408 },
    });
  });

  it('loses its connection where an earlier answer is being written on it', async () => {
    // The earlier request is to come in time, though the machine may stall for a second.
    const patient = await startTestServer({
      model: { config: { max_position_embeddings: 20_000 } },
      server: { receiveTimeoutMs: 1500 },
    });
    const client = new RawClient(
      patient.server.port,
      rawPost(PATH, { ...ENDLESS, stream: true }) + rawPost(PATH, '{', { length: 100 }),
    );
    await until(() => client.isClosed);
    expect(client.received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200']);
    expect(client.received).not.toContain('[DONE]');
    await until(() => isIdle(patient.engine));
    await patient.close();
  });
});

describe('a server on localhost', needsIpv6, () => {
  const BOTH = ['127.0.0.1', '::1'];
  let svc: TestServer;
  beforeAll(async () => {
    svc = await startTestServer({ server: { host: 'localhost' } });
  });
  afterAll(() => svc.close());

  it('answers a body that does not come in time 408 at either address', async () => {
    const impatient = await startTestServer({ server: { host: 'localhost', receiveTimeoutMs: 200 } });
    for (const host of BOTH) {
      const client = new RawClient(impatient.server.port, rawPost(PATH, '{"prompt":', { length: 100 }), host);
      await until(() => client.isClosed);
      expect(client.answer.status).toBe(408);
      expect(JSON.parse(client.answer.body)).toMatchObject({ error: { type: 'Request Timeout' } });
    }
    await impatient.close();
  });

  it.each(BOTH)('answers a client that has shut down its side at %s', async (host) => {
    const client = new RawClient(svc.server.port, rawPost(PATH, BODY), host);
    client.shutDown();
    await until(() => client.isClosed);
    expect(client.answer.status).toBe(200);
    expect(JSON.parse(client.answer.body).usage.completion_tokens).toBe(5);
  });

  it('says on connections that are in use that it drains', async () => {
    const draining = await startTestServer({ model: { config: { max_position_embeddings: 20_000 } } });
    const { port } = draining.server;
    const long = new RawClient(port, rawPost(PATH, ENDLESS));
    const short = new RawClient(port, rawPost(PATH, BODY));
    await until(() => draining.server.numInFlight === 2);
    const drained = draining.server.drain(10_000);
    short.socket.write('GET /health HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(() => short.received.includes('HTTP/1.1 503'));
    expect(short.answer.status).toBe(200);
    expect(short.received).toContain('shutting down');
    long.leave();
    await drained;
    await draining.close();
  });

  it('answers nobody who comes while it drains, at either address', async () => {
    const stream = rawPost(PATH, { ...BODY, max_tokens: 100, stream: true });
    const inFlight = new RawClient(svc.server.port, stream);
    await until(() => svc.server.numInFlight === 1);
    const { port } = svc.server;
    const drained = svc.server.drain(10_000);
    const late = BOTH.map((host) => new RawClient(port, rawPost(PATH, BODY), host));
    await until(() => late.every(({ isClosed }) => isClosed));
    expect(late.map(({ received }) => received)).toEqual(['', '']);
    expect(await drained).toBe(0);
    await until(() => inFlight.received.includes('data: [DONE]'));
  });
});
