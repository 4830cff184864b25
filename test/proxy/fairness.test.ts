// A real proxy over a real instance: clients share the instance fairly, although all their requests come from the proxy.

import { once } from 'node:events';
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { parseAddress } from '../../src/cluster/address.ts';
import { Registration } from '../../src/cluster/registration.ts';
import { modelFolder } from '../../src/models/model-folder.ts';
import type { ServerOptions } from '../../src/server/server-context.ts';
import { Cluster } from '../helpers/cluster.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { needsNative } from '../helpers/needs.ts';
import { until } from '../helpers/until.ts';
import { MODEL, startTestServer, type TestServer } from '../server/test-server.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

/** Real instances say every three seconds that they are there. */
const deadlines = { late: 60_000, expiry: 60_000 };
const TOKEN = 'told to the proxy alone';
const BODY = { model: MODEL, prompt: 'Hello', ignore_eos: true };
/** Sequences that the instance takes: one that runs and five that wait. */
const PLACES = 6;
const closing: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** An instance that the proxy lists as ready. */
async function joinedInstance(proxy: TestProxy, options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const svc = await startTestServer({
    model: { config: { max_position_embeddings: 20_000 } },
    engine: { maxNumSeqs: 1, maxQueuedRequests: PLACES - 1 },
    server: { proxyToken: TOKEN, ...options },
  });
  closing.push(svc.close);
  const { port } = svc.server;
  const config = kvTransferConfig({ proxy: parseAddress(proxy.server.discoveryAddress), httpPort: port });
  const load = async () => ({ running: 0, waiting: 0, free_blocks: 1, num_blocks: 1 });
  const registration = Registration.start(config, { model: MODEL, load, proxyToken: TOKEN });
  closing.push(() => registration?.close());
  await proxy.untilState({ httpAddress: `127.0.0.1:${port}` }, 'ready');
  return svc;
}

/** Fills all places with requests that `ask` sends; they end with the test. */
async function flood(svc: TestServer, ask: (maxTokens: number, signal: AbortSignal) => Promise<unknown>) {
  const controller = new AbortController();
  closing.push(() => controller.abort());
  for (let sent = 0; sent < PLACES; sent += 1) void ask(19_000, controller.signal).catch(() => {});
  await until(async () => {
    const { running, waiting } = await svc.engine.stats();
    return running + waiting === PLACES;
  });
}

/** One token, or a stream of many samples one after the other, which nobody reads to its end. */
function bodyOf(max_tokens: number): string {
  return JSON.stringify({ ...BODY, max_tokens, ...(max_tokens > 1 && { stream: true, n: 16 }) });
}

async function statusOf(url: string, headers: Record<string, string>, max_tokens = 1, signal?: AbortSignal) {
  const answered = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: bodyOf(max_tokens),
    ...(signal && { signal }),
  });
  if (max_tokens === 1) await answered.text();
  return answered.status;
}

/** The status of a request whose client has the address `localAddress`. */
async function statusFrom(localAddress: string, url: string, max_tokens = 1, signal?: AbortSignal) {
  const sent = request(`${url}/v1/completions`, {
    localAddress,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    ...(signal && { signal }),
  });
  sent.end(bodyOf(max_tokens));
  const [answered] = await once(sent, 'response');
  answered.resume();
  return answered.statusCode;
}

describe('clients of a proxy that shows instances a key of its own', () => {
  it('share an instance by their keys: one that floods it leaves a place to another', async () => {
    const proxy = await TestProxy.start({
      config: { apiKey: ['heavy', 'fake'] },
      instanceKey: 'of the instances',
      deadlines,
    });
    const svc = await joinedInstance(proxy, { apiKeys: ['of the instances'] });
    const ask = (key: string, maxTokens = 1, signal?: AbortSignal) =>
      statusOf(proxy.url, { authorization: `Bearer ${key}` }, maxTokens, signal);
    await flood(svc, (maxTokens, signal) => ask('heavy', maxTokens, signal));
    expect(await ask('heavy')).toBe(429);
    const fake = ask('fake');
    await until(async () => (await svc.engine.stats()).waiting === PLACES);
    for (const close of closing.splice(-1)) await close();
    expect(await fake).toBe(200);
  });
});

describe('clients of a proxy without keys', () => {
  it('share an instance by their addresses', async () => {
    const proxy = await TestProxy.start({ deadlines });
    const svc = await joinedInstance(proxy);
    await flood(svc, (maxTokens, signal) => statusFrom('127.0.0.2', proxy.url, maxTokens, signal));
    expect(await statusFrom('127.0.0.2', proxy.url)).toBe(429);
    const other = statusFrom('127.0.0.3', proxy.url);
    await until(async () => (await svc.engine.stats()).waiting === PLACES);
    for (const close of closing.splice(-1)) await close();
    expect(await other).toBe(200);
  });
});

describe('a client that talks to an instance directly', () => {
  it.each([
    ['no token', {}],
    ['a token that it made up', { 'x-svc-proxy-token': 'told to nobody' }],
  ])('cannot pose as another caller with %s', async (_, token) => {
    const proxy = await TestProxy.start({ deadlines });
    const svc = await joinedInstance(proxy);
    const pose = (name: string) => ({ 'x-svc-caller': `key:${name.repeat(43)}`, ...token });
    await flood(svc, (maxTokens, signal) => statusOf(svc.url, pose('a'), maxTokens, signal));
    expect(await statusOf(svc.url, pose('b'))).toBe(429);
  });
});

describe('svc serve', needsNative, () => {
  it('tells svc proxy its token: clients of the two commands share an instance', async () => {
    const serveArgs = ['--max-num-seqs', '1', '--max-queued-requests', '1', '--served-model-name', MODEL];
    const group = await Cluster.start({
      model: await modelFolder(''),
      producers: 0,
      consumers: 1,
      serveArgs,
    });
    closing.push(() => group.stop());
    const controller = new AbortController();
    const ask = (address: string, maxTokens: number) =>
      statusFrom(address, group.url, maxTokens, controller.signal);
    expect([await ask('127.0.0.2', 1000), await ask('127.0.0.2', 1000)]).toEqual([200, 200]);
    expect([await ask('127.0.0.2', 1000), await ask('127.0.0.3', 1000)]).toEqual([429, 200]);
    controller.abort();
  });
});
