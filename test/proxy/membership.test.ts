import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import { zmqContext } from '../../src/cluster/zmq.ts';
import { ConfigError } from '../../src/errors.ts';
import { createLogger } from '../../src/observability/log.ts';
import { PROXY_DEADLINES } from '../../src/proxy/deadlines.ts';
import { FakeInstance } from '../helpers/fake-instance.ts';
import { until } from '../helpers/until.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

const BODY = { model: 'fake', prompt: 'Once upon a time', max_tokens: 5, temperature: 0 };
const SECRET = 'a secret of enough characters';

/** Sends messages as instances of the existing protocol do. */
async function say(proxy: TestProxy, identity: string, ...messages: Uint8Array[][]): Promise<void> {
  const socket = new Dealer({ context: zmqContext(), routingId: identity, linger: 500 });
  socket.connect(`tcp://${proxy.server.discoveryAddress}`);
  for (const frames of messages) await socket.send(frames);
  socket.close();
}

describe('an instance', () => {
  it('registers with the three keys of the existing protocol', async () => {
    const proxy = await TestProxy.start();
    const zmq_address = '127.0.0.1:21001';
    await say(proxy, zmq_address, [encode({ type: 'P', http_address: '127.0.0.1:20003', zmq_address })]);
    await until(async () => (await proxy.instances()).length === 1);
    expect(await proxy.instances()).toEqual([
      expect.objectContaining({ type: 'P', http_address: '127.0.0.1:20003', zmq_address, state: 'ready' }),
    ]);
  });

  it('that registers with rubbish is counted and not listed', async () => {
    const proxy = await TestProxy.start();
    const zmq_address = '127.0.0.1:21002';
    const http_address = '127.0.0.1:20004';
    const good = encode({ type: 'D', http_address, zmq_address });
    await say(
      proxy,
      zmq_address,
      [encode({ type: 'X', http_address, zmq_address })],
      [encode({ type: 'D', http_address: 'nowhere', zmq_address })],
      [encode([1, 2])],
      [Buffer.from('\xc1 no msgpack')],
      [good, good],
    );
    await say(proxy, '127.0.0.1:9', [good]);
    await until(async () => (await proxy.metric('registrations_refused_total')) === 6);
    expect(await proxy.instances()).toEqual([]);
  });

  it('joins while requests run, and takes its turn', async () => {
    const proxy = await TestProxy.start();
    const [d1] = await proxy.join('D');
    for (let round = 0; round < 4; round += 1) await proxy.client.completions.create(BODY);
    const [d2] = await proxy.join('D');
    for (let round = 0; round < 4; round += 1) await proxy.client.completions.create(BODY);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([6, 2]);
  });

  it('whose model no instance of the other kind has by that name is named in the log', async () => {
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const proxy = await TestProxy.start({ logger });
    await proxy.join('P', { about: { model: './fake' } });
    const [d1] = await proxy.join('D');
    await proxy.client.completions.create(BODY);
    expect(await proxy.metric('prefill_skipped_total')).toBe(1);
    await proxy.join('DP');
    expect(lines).toEqual([
      expect.stringMatching(
        /no P instance has a model of this name, .*give all the same --served-model-name/,
      ),
      expect.stringContaining('no P instance'),
    ]);
    expect(lines[0]).toContain(`address=${d1?.httpAddress} model=fake others=["./fake"]`);
  });

  it('that drains finishes what it has and gets nothing new', async () => {
    const proxy = await TestProxy.start();
    const [d1] = await proxy.join('D', { tokenMs: 30 });
    const [d2] = await proxy.join('D');
    const stream = await proxy.client.completions.create({ ...BODY, stream: true });
    d1?.drain();
    await proxy.untilState(d1!, 'draining');
    for (let round = 0; round < 3; round += 1) await proxy.client.completions.create(BODY);
    let numEvents = 0;
    for await (const _ of stream) numEvents += 1;
    expect(numEvents).toBe(5);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 3]);
    expect(await proxy.metric('resumes_total')).toBe(0);
  });

  it('that says goodbye is gone at once', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    const closedAt = performance.now();
    await d1?.close();
    await proxy.untilState(d1!, 'gone');
    expect(performance.now() - closedAt).toBeLessThan(PROXY_DEADLINES.expiry / 2);
    expect(await proxy.stateOf(d2!)).toBe('ready');
  });

  it('that falls silent is gone when it is missed', async () => {
    const expiry = 1500;
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const proxy = await TestProxy.start({ deadlines: { late: 500, expiry, remember: 2 * expiry }, logger });
    const [d] = await proxy.join('D');
    const silentAt = performance.now();
    d?.fallSilent();
    await proxy.untilState(d!, 'gone');
    expect(performance.now() - silentAt).toBeGreaterThan(expiry / 3);
    expect((await fetch(`${proxy.url}/health`)).status).toBe(503);
    expect(lines).toEqual([expect.stringContaining('instance is gone, and has not said goodbye')]);
    await until(async () => (await proxy.instances()).length === 0);
  });

  it('whose heartbeats are late is there while bytes of its answers come', async () => {
    const expiry = 1500;
    const tokenMs = 100;
    const proxy = await TestProxy.start({ deadlines: { late: 500, expiry } });
    const [d] = await proxy.join('D', { tokenMs });
    const stream = await proxy.client.completions.create({ ...BODY, max_tokens: 25, stream: true });
    d?.fallSilent();
    let numTokens = 0;
    for await (const _ of stream) {
      numTokens += 1;
      // Without the bytes it would have been missed by then.
      if (numTokens * tokenMs === expiry + 500) expect(await proxy.stateOf(d!)).toBe('ready');
    }
    expect(numTokens).toBe(25);
    await proxy.untilState(d!, 'gone');
  });

  it('that is late is asked only where nobody else is there', async () => {
    const proxy = await TestProxy.start({ deadlines: { late: 1500, expiry: 60_000 } });
    const [d1] = await proxy.join('D');
    d1?.fallSilent();
    await until(async () => (await proxy.instances())[0]?.is_suspect === true);
    await proxy.client.completions.create(BODY);
    expect(d1?.requests).toHaveLength(1);
    const [d2] = await proxy.join('D');
    for (let round = 0; round < 4; round += 1) await proxy.client.completions.create(BODY);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 4]);
  });

  it('that was missed is waited for, and answers when it is heard of again', async () => {
    const lines: string[] = [];
    const logger = createLogger('info', (line) => lines.push(line));
    const deadlines = { late: 60_000, expiry: 1000, pause: 20 };
    const proxy = await TestProxy.start({ deadlines, logger });
    const about = { epoch: 'the same' };
    const [d] = await proxy.join('D', { about });
    d?.fallSilent();
    await proxy.untilState(d!, 'gone');
    const asked = proxy.client.completions.create(BODY);
    await until(async () => (await proxy.metric('requests_in_flight')) === 1);
    const { httpAddress: http_address, zmqAddress: zmq_address } = d!;
    await say(proxy, zmq_address, [encode({ type: 'D', http_address, zmq_address, ...about })]);
    expect((await asked).choices).toHaveLength(1);
    expect(lines.filter((line) => line.includes('instance is ready'))).toHaveLength(2);
    expect(lines.filter((line) => line.includes('has not said goodbye'))).toHaveLength(1);
  });

  it('that was missed is waited for no longer than it may be late', async () => {
    const proxy = await TestProxy.start({ deadlines: { late: 3000, expiry: 500, pause: 20 } });
    const [d] = await proxy.join('D');
    d?.fallSilent();
    await proxy.untilState(d!, 'gone');
    for (const [least, most] of [
      [200, 20_000],
      [0, 1000],
    ] as const) {
      const askedAt = performance.now();
      expect((await proxy.post('/v1/completions', BODY)).status).toBe(503);
      const waited = performance.now() - askedAt;
      expect(waited).toBeGreaterThan(least);
      expect(waited).toBeLessThan(most);
    }
  });

  it('that comes back keeps its turn and is another run', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    const httpPort = d1?.port ?? 0;
    await d1?.close();
    await proxy.untilState(d1!, 'gone');
    const [back] = await proxy.join('D', { httpPort });
    expect((await proxy.instances()).map(({ http_address }) => http_address)).toEqual([
      back?.httpAddress,
      d2?.httpAddress,
    ]);
    for (let round = 0; round < 4; round += 1) await proxy.client.completions.create(BODY);
    expect([back?.requests.length, d2?.requests.length]).toEqual([2, 2]);
  });

  it('that comes back is not taken for an earlier run whose last heartbeat is heard late', async () => {
    const proxy = await TestProxy.start();
    const about = { zmq_address: '127.0.0.3:9', epoch: 'earlier' };
    const [earlier] = await proxy.join('D', { about });
    const { httpAddress, port } = earlier!;
    await earlier?.close();
    // Both have one address: who is ready there must be the new one.
    await proxy.untilState(earlier!, 'gone');
    const [back] = await proxy.join('D', { httpPort: port, tokenMs: 50 });
    const stream = await proxy.client.completions.create({ ...BODY, max_tokens: 20, stream: true });
    let numTokens = 0;
    for await (const _ of stream) {
      numTokens += 1;
      if (numTokens > 1) continue;
      const late = { type: 'D', http_address: httpAddress, ...about } as const;
      await say(proxy, about.zmq_address, [encode(late)]);
    }
    expect([numTokens, back?.requests.length]).toEqual([20, 1]);
  });

  it('killed without a word loses no request', async () => {
    const proxy = await TestProxy.start();
    const children = await Promise.all([1, 2, 3].map(() => spawnInstance(proxy)));
    await until(async () => (await proxy.instances()).length === 3);
    const asked = Array.from({ length: 30 }, (_, index) => {
      const body = { ...BODY, max_tokens: 500, prompt: `prompt ${index}`, stream: index % 2 === 0 };
      return proxy.post('/v1/completions', body);
    });
    const ended = asked.map(async (answer) => {
      const answered = await answer;
      return [answered.status, (await answered.text()).includes('"error"')];
    });
    // The heads of all are here, streams are in the middle.
    await Promise.all(asked);
    for (const child of children.slice(1)) child.kill('SIGKILL');
    expect(await Promise.all(ended)).toEqual(asked.map(() => [200, false]));
    expect(await proxy.metric('resumes_total')).toBeGreaterThan(0);
    children[0]?.kill('SIGKILL');
  });
});

async function spawnInstance({ server }: TestProxy): Promise<ChildProcess> {
  const options = JSON.stringify({ type: 'D', discovery: server.discoveryAddress, tokenMs: 5 });
  const args = ['--import', 'tsx', 'test/helpers/fake-instance-process.ts', options];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  return child;
}

describe('with a secret', () => {
  it('only those that know it are heard', async () => {
    const proxy = await TestProxy.start({ config: { kvTransferSecret: SECRET } });
    await proxy.join('D', { secret: SECRET });
    const zmq_address = '127.0.0.1:21003';
    await say(proxy, zmq_address, [encode({ type: 'D', http_address: '127.0.0.1:20005', zmq_address })]);
    const discovery = proxy.server.discoveryAddress;
    const stranger = await FakeInstance.start({ type: 'D', discovery, secret: `${SECRET}, another one` });
    await until(() => stranger.numDisconnects >= 3);
    expect(await proxy.metric('registrations_refused_total')).toBeGreaterThanOrEqual(3);
    // Who knows it is heard meanwhile.
    await proxy.join('D', { secret: SECRET });
    expect(await proxy.instances()).toHaveLength(2);
    await stranger.close();
  });
});

describe('the discovery port', () => {
  it('that is in use is named with the option to change', async () => {
    const proxy = await TestProxy.start();
    const discoveryPort = Number(proxy.server.discoveryAddress.split(':')[1]);
    const second = TestProxy.start({ config: { discoveryPort } });
    await expect(second).rejects.toBeInstanceOf(ConfigError);
    await expect(second).rejects.toThrow(/--discovery-port/);
  });
});
