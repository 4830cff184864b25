import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { createLogger } from '../../src/observability/log.ts';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

const BODY = { model: 'fake', prompt: 'Once upon a time', max_tokens: 5, temperature: 0 };
const LONG = { ...BODY, max_tokens: 1000 };

describe('a client that hangs up', () => {
  it('in the middle of a stream ends it at the instance, which is told with P to forget the transfer', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD', { tokenMs: 5 });
    const stream = await proxy.client.completions.create({ ...LONG, stream: true });
    for await (const _ of stream) break;
    await until(() => d?.requests[0]?.wasAborted === true);
    const id = d?.requests[0]?.headers['x-request-id'];
    await until(() => p?.cancelled.length === 1 && d?.cancelled.length === 1);
    expect([p?.cancelled, d?.cancelled]).toEqual([[id], [id]]);
    await until(async () => (await proxy.metric('requests_total', '499')) === 1);
    expect(await proxy.metric('requests_in_flight')).toBe(0);
    expect(await proxy.metric('instance_failures_total')).toBe(0);
  });

  it.each(['P', 'D'] as const)('while %s computes ends that', async (type) => {
    const proxy = await TestProxy.start();
    const joined = await proxy.join('PD');
    const stuck = joined[type === 'P' ? 0 : 1];
    stuck?.troubles.push({ at: 'request', does: 'stall' });
    const controller = new AbortController();
    const asked = proxy.client.completions.create(BODY, { signal: controller.signal });
    await until(() => stuck?.requests.length === 1);
    controller.abort();
    await expect(asked).rejects.toThrow('aborted');
    await until(() => stuck?.requests[0]?.wasAborted === true);
    await until(() => joined.every(({ cancelled }) => cancelled.length === 1));
    if (type === 'P') expect(joined[1]?.requests).toHaveLength(0);
  });

  it('ends the transfer at instances that want a key, too', async () => {
    const proxy = await TestProxy.start();
    const joined = await proxy.join('PD', { apiKey: 'none' });
    joined[1]?.troubles.push({ at: 'request', does: 'stall' });
    const controller = new AbortController();
    const asked = proxy.client.completions.create(BODY, { signal: controller.signal });
    await until(() => joined[1]?.requests.length === 1);
    controller.abort();
    await expect(asked).rejects.toThrow('aborted');
    await until(() => joined.every(({ cancelled }) => cancelled.length === 1));
  });

  it('lets an instance know that has been missed meanwhile, for it may live', async () => {
    const proxy = await TestProxy.start({ deadlines: { late: 60_000, expiry: 500 } });
    const [p, d] = await proxy.join('PD');
    d?.troubles.push({ at: 'request', does: 'stall' });
    const controller = new AbortController();
    const asked = proxy.client.completions.create(BODY, { signal: controller.signal });
    await until(() => d?.requests.length === 1);
    p?.fallSilent();
    await proxy.untilState(p!, 'gone');
    controller.abort();
    await expect(asked).rejects.toThrow('aborted');
    await until(() => p?.cancelled.length === 1);
  });

  it('by its socket alone is noticed', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { tokenMs: 5 });
    const body = JSON.stringify({ ...LONG, stream: true });
    const socket = connect(proxy.server.port, '127.0.0.1');
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await until(() => d?.requests.length === 1);
    socket.destroy();
    await until(() => d?.requests[0]?.wasAborted === true);
    await until(() => proxy.server.numInFlight === 0);
  });

  it.each([false, true])('on its own side only gets its answer (stream: %s)', async (stream) => {
    const proxy = await TestProxy.start();
    // Many times the pause between two words of the proxy to such a client.
    const [d] = await proxy.join('D', { tokenMs: 1500 });
    const body = { ...BODY, max_tokens: 1, stream };
    const client = new RawClient(proxy.server.port, rawPost('/v1/completions', body));
    await until(() => d?.requests.length === 1);
    client.shutDown();
    await until(() => client.isClosed);
    expect(client.answer.status).toBe(200);
    expect(client.answer.body).toContain(stream ? 'data: [DONE]' : '"usage"');
    expect(client.received).toContain(stream ? ': waiting' : '100 Continue');
    expect(d?.requests[0]?.wasAborted).toBe(false);
  });

  it.each([false, true])('altogether while nothing comes is noticed (stream: %s)', async (stream) => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: stream ? 'head' : 'request', does: 'stall' });
    const client = new RawClient(proxy.server.port, rawPost('/v1/completions', { ...BODY, stream }));
    await until(() => d?.requests.length === 1);
    client.leave();
    await until(() => d?.requests[0]?.wasAborted === true);
    await until(() => proxy.server.numInFlight === 0);
  });

  it.each([true, false])('or takes nothing for too long is cut off (stream: %s)', async (stream) => {
    const proxy = await TestProxy.start({ deadlines: { slowClient: 200 } });
    const [d] = await proxy.join('D');
    // In one piece: more than the buffers of both ends hold.
    const body = { ...BODY, max_tokens: stream ? 1_000_000 : 4_000_000, stream };
    const socket = connect(proxy.server.port, '127.0.0.1').pause();
    socket.write(rawPost('/v1/completions', body));
    await until(() => d?.requests.length === 1);
    await until(() => proxy.server.numInFlight === 0);
    if (stream) await until(() => d?.requests[0]?.wasAborted === true);
    expect(await proxy.metric('requests_total', '499')).toBe(1);
    socket.destroy();
  });

  it('or takes long for a large answer gets all of it', async () => {
    const slowClient = 2000;
    const proxy = await TestProxy.start({ deadlines: { slowClient } });
    await proxy.join('D');
    const client = new RawClient(
      proxy.server.port,
      rawPost('/v1/completions', { ...BODY, max_tokens: 4_000_000 }),
    );
    // All pauses together last longer than one may.
    for (let pause = 0; pause < 4; pause += 1) {
      client.socket.pause();
      await sleep(0.3 * slowClient);
      client.socket.resume();
      // Less would leave the window of the connection shut.
      for (let chunk = 0; chunk < 16; chunk += 1) await once(client.socket, 'data');
    }
    client.shutDown();
    await until(() => client.isClosed);
    const { status, head, body } = client.answer;
    expect(status).toBe(200);
    expect(body).toHaveLength(Number(/content-length: (\d+)/i.exec(head)?.[1]));
  });
});

describe('a proxy with keys', () => {
  it('lets in who has one, and shows instances its own', async () => {
    const config = { apiKey: ['of the client'] };
    const proxy = await TestProxy.start({ config, instanceKey: 'of the instances' });
    const [p, d] = await proxy.join('PD', { apiKey: 'of the instances' });
    await proxy.client.completions.create(BODY);
    expect([p, d].map((it) => it?.requests[0]?.headers.authorization)).toEqual([
      'Bearer of the instances',
      'Bearer of the instances',
    ]);
    const stranger = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: 'another', maxRetries: 0 });
    await expect(stranger.completions.create(BODY)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    expect(d?.requests).toHaveLength(1);
  });

  it('does not blame the client where an instance wants another key, and names the instance once', async () => {
    const warnings: string[] = [];
    const logger = createLogger('warn', (line) => warnings.push(line));
    const config = { apiKey: ['of the client'] };
    const proxy = await TestProxy.start({ config, instanceKey: 'wrong', logger });
    const [p, d] = await proxy.join('PD', { apiKey: 'right' });
    const headers = { authorization: 'Bearer of the client' };
    const answers = [
      await proxy.post('/v1/completions', BODY, headers),
      await fetch(`${proxy.url}/v1/models`, { headers }),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(502);
      expect(await answer.json()).toMatchObject({
        error: { type: 'BadGatewayError', message: expect.stringContaining('in OPENAI_API_KEY') },
      });
    }
    const named = (address: string | undefined) =>
      warnings.filter((line) => line.includes(`${address} does not`));
    expect([named(p?.httpAddress).length, named(d?.httpAddress).length]).toEqual([1, 1]);
  });

  it('shows its instances to who has one only; the page, which has none, is there for all', async () => {
    const proxy = await TestProxy.start({ config: { apiKey: ['of the client'] } });
    await proxy.join('D');
    for (const path of ['/instances', '/instances?a=b', '/%69nstances', '/v1/models', '/nowhere']) {
      const answered = await fetch(proxy.url + path);
      expect([answered.status, answered.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      expect(await answered.json()).toMatchObject({ error: { type: 'AuthenticationError', code: 401 } });
    }
    const headers = { authorization: 'Bearer of the client' };
    expect((await fetch(`${proxy.url}/instances`, { headers })).status).toBe(200);
    for (const path of ['/', '/health', '/metrics', '/version']) {
      expect((await fetch(proxy.url + path)).status).toBe(200);
    }
  });

  it('hands on what the client shows where it has none of its own', async () => {
    const proxy = await TestProxy.start({ instanceKey: 'unused' });
    await proxy.join('PD', { apiKey: 'of the client' });
    const client = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: 'of the client', maxRetries: 0 });
    expect((await client.completions.create(BODY)).choices).toHaveLength(1);
    await expect(proxy.client.completions.create(BODY)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });
});

describe('a proxy that is asked to stop', () => {
  it('finishes what is in flight and takes nothing new', async () => {
    const proxy = await TestProxy.start();
    await proxy.join('D', { tokenMs: 20 });
    const stream = await proxy.client.completions.create({ ...BODY, max_tokens: 10, stream: true });
    const drained = proxy.server.drain(10_000);
    let numEvents = 0;
    for await (const _ of stream) numEvents += 1;
    expect(numEvents).toBe(10);
    expect(await drained).toBe(0);
    await expect(proxy.client.completions.create(BODY)).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
  });

  it('tells those that it cannot wait for', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { tokenMs: 20 });
    const streamed = await proxy.post('/v1/completions', { ...LONG, stream: true });
    d?.troubles.push({ at: 'request', does: 'stall' });
    const whole = proxy.post('/v1/completions', BODY);
    await until(() => d?.requests.length === 2);
    expect(await proxy.server.drain(100)).toBe(2);
    const events = (await streamed.text()).trimEnd().split('\n\n');
    expect(events.at(-2)).toContain('shutting down');
    expect(events.at(-1)).toBe('data: [DONE]');
    expect((await whole).status).toBe(503);
    await until(() => d?.requests.every(({ wasAborted }) => wasAborted) === true);
  });
});

describe('a proxy', () => {
  it('takes no longer bodies than instances do', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    const answered = await proxy.post('/v1/completions', { ...BODY, prompt: 'a'.repeat(9e6) });
    expect(answered.status).toBe(413);
    expect(d?.requests).toHaveLength(0);
  });

  it('asks one instance for an answer that is too long to be held back, and says what to do', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DD');
    for (const d of all) d.troubles.push({ at: 'request', does: 'flood' });
    const answered = await proxy.post('/v1/completions', BODY);
    expect(answered.status).toBe(400);
    expect(await answered.text()).toContain('more than 64 MiB');
    expect(all.map(({ requests }) => requests.length).toSorted()).toEqual([0, 1]);
    expect((await proxy.instances()).some(({ is_suspect }) => is_suspect)).toBe(false);
  });

  it('takes no more requests at a time than it may', async () => {
    const proxy = await TestProxy.start({ config: { maxInFlight: 1 } });
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: 'request', does: 'stall' });
    const first = proxy.post('/v1/completions', BODY).catch(() => null);
    await until(() => proxy.server.numInFlight === 1);
    const second = await proxy.post('/v1/completions', BODY);
    expect([second.status, second.headers.get('retry-after')]).toEqual([429, expect.any(String)]);
    await proxy.server.close();
    await first;
  });

  it('says how it is', async () => {
    const proxy = await TestProxy.start();
    const empty = await fetch(`${proxy.url}/health`);
    expect([empty.status, await empty.json()]).toEqual([
      503,
      expect.objectContaining({ prefill: 0, decode: 0 }),
    ]);
    await proxy.join('PPD');
    const health = await fetch(`${proxy.url}/health`);
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok', prefill: 2, decode: 1 }]);
    expect(await (await fetch(`${proxy.url}/version`)).json()).toEqual({ version: '9.9.9' });
    expect((await proxy.client.models.list()).data.map(({ id }) => id)).toEqual(['fake']);
    expect((await fetch(`${proxy.url}/v1/nothing`)).status).toBe(404);
    expect((await fetch(`${proxy.url}/v1/completions`)).status).toBe(405);
  });

  it('counts what it does', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    await proxy.client.completions.create(BODY);
    d?.troubles.push({ at: 'request', does: 400 });
    await proxy.post('/v1/completions', BODY);
    await until(async () => (await proxy.metric('requests_total')) === 2);
    expect(await proxy.metric('requests_total', 'status="400"')).toBe(1);
    expect(await proxy.metric('instance_requests_total', p?.httpAddress)).toBe(2);
    expect(await proxy.metric('instance_requests_total', d?.httpAddress)).toBe(2);
    expect(await proxy.metric('instances', 'type="P",state="ready"')).toBe(1);
    expect(await proxy.metric('time_to_first_byte_seconds_count')).toBe(2);
    expect(await proxy.metric('leg_seconds_count', 'prefill')).toBe(2);
  });

  it('counts from 0 what has not happened yet', async () => {
    const proxy = await TestProxy.start();
    const text = await (await fetch(`${proxy.url}/metrics`)).text();
    for (const sample of [
      'retries_total{leg="decode"}',
      'cancels_total{outcome="failed"}',
      'leg_seconds_count{leg="prefill"}',
    ])
      expect(text).toContain(`svc:proxy_${sample} 0\n`);
  });

  it('lists the transfers that it led through', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    await proxy.client.completions.create(BODY);
    const { transfers } = (await (await fetch(`${proxy.url}/instances`)).json()) as { transfers: unknown };
    expect(transfers).toEqual([
      {
        prefill: p?.httpAddress,
        decode: d?.httpAddress,
        at: expect.any(Number),
        milliseconds: expect.any(Number),
      },
    ]);
  });

  it('says which port is in use', async () => {
    const proxy = await TestProxy.start();
    const second = TestProxy.start({ config: { port: proxy.server.port } });
    await expect(second).rejects.toBeInstanceOf(ConfigError);
    await expect(second).rejects.toThrow(/choose another --port/);
  });

  it('closes with nothing left under way', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { tokenMs: 5 });
    const asked = proxy.post('/v1/completions', { ...LONG, stream: true });
    await asked;
    await proxy.server.close();
    await until(() => d?.requests[0]?.wasAborted === true);
    await until(() => proxy.server.numInFlight === 0);
  });
});

describe('what any instance answers alike', () => {
  it('is answered as one of them does, though another one is gone', async () => {
    const proxy = await TestProxy.start();
    const [gone] = await proxy.join('DD');
    gone?.die();
    const asked = { prompt: 'Hello' };
    const answers = await Promise.all([1, 2, 3].map(() => proxy.post('/tokenize', asked)));
    for (const answer of answers) {
      expect(answer.status).toBe(200);
      expect(await answer.json()).toEqual({ tokens: [1, 2], asked });
    }
    // The fake instance has no such routes: its own answer comes back.
    for (const path of ['/openapi.json', '/docs', '/tokenizer_info', '/v1/models/a/b']) {
      expect((await fetch(`${proxy.url}${path}`)).headers.get('x-refused')).toBe('yes');
    }
  });

  it('is asked of another one where one is full or about to leave', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DD');
    const [d1, d2] = all;
    d1?.troubles.push({ at: 'request', does: 503 });
    expect((await proxy.post('/tokenize', { prompt: 'Hello' })).status).toBe(200);
    for (const d of all) d.troubles.push({ at: 'request', does: 429 });
    const refused = await proxy.post('/tokenize', { prompt: 'Hello' });
    expect([refused.status, refused.headers.get('x-refused')]).toEqual([429, 'yes']);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([2, 2]);
  });

  it('is asked of the one that has least to do', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 'request', does: 'stall' });
    const stuck = proxy.post('/tokenize', { prompt: 'Hello' }).catch(() => null);
    await until(() => d1?.requests.length === 1);
    await proxy.post('/tokenize', { prompt: 'Hello' });
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 1]);
    await proxy.server.close();
    await stuck;
  });

  it('ends there with its client, and no other one is asked', async () => {
    const errors: string[] = [];
    const logger = createLogger('error', (line) => errors.push(line));
    const proxy = await TestProxy.start({ logger });
    const joined = await proxy.join('DD');
    for (const { troubles } of joined) troubles.push({ at: 'request', does: 'stall' });
    const requests = () => joined.flatMap((instance) => instance.requests);
    const client = new RawClient(proxy.server.port, rawPost('/tokenize', { prompt: 'Hello' }));
    await until(() => requests().length === 1);
    client.leave();
    await until(() => requests()[0]?.wasAborted === true);
    await until(async () => (await proxy.instances()).every(({ in_flight }) => in_flight === 0));
    expect(requests()).toHaveLength(1);
    expect(await proxy.metric('instance_failures_total')).toBe(0);
    expect(errors).toEqual([]);
  });

  it('is in flight: a proxy that stops waits for it, and ends with the reason what takes longer', async () => {
    const proxy = await TestProxy.start();
    const [instance] = await proxy.join('D');
    instance!.troubles.push({ at: 'request', does: 'stall' });
    const answer = proxy.post('/tokenize', { prompt: 'Hello' });
    await until(() => instance!.requests.length === 1);
    expect(await (await fetch(`${proxy.url}/load`)).json()).toEqual({ server_load: 1 });
    expect(await proxy.server.drain(50)).toBe(1);
    const refused = await answer;
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      error: { message: expect.stringContaining('could not finish this request') },
    });
  });

  it('is refused for now where there is none', async () => {
    const proxy = await TestProxy.start();
    for (const path of ['/tokenize', '/detokenize']) {
      const refused = await proxy.post(path, { prompt: 'a' });
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '3']);
    }
  });
});

it('the proxy answers /ping and /load of itself', async () => {
  const proxy = await TestProxy.start();
  expect((await fetch(`${proxy.url}/ping`)).status).toBe(503);
  await proxy.join('D');
  for (const method of ['GET', 'POST'])
    expect((await fetch(`${proxy.url}/ping`, { method })).status).toBe(200);
  expect(await (await fetch(`${proxy.url}/load`)).json()).toEqual({ server_load: 0 });
});
