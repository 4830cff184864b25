// Which instances are there, while time does not pass evenly.

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { RegistrationMessage } from '../../src/cluster/discovery-message.ts';
import { CancelNotifier } from '../../src/proxy/cancel-notifier.ts';
import { MAX_INSTANCES, PROXY_DEADLINES } from '../../src/proxy/deadlines.ts';
import type { Instance } from '../../src/proxy/instance.ts';
import { Instances } from '../../src/proxy/instances.ts';
import { ProxyMetrics } from '../../src/proxy/metrics.ts';
import { UpstreamRequest } from '../../src/proxy/upstream-request.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { until } from '../helpers/until.ts';

const EXPIRY_MS = 500;
const DEADLINES = { ...PROXY_DEADLINES, sweep: 20, late: 200, expiry: EXPIRY_MS };
const HOUR_MS = 3_600_000;
const MESSAGE: RegistrationMessage = {
  type: 'D',
  http_address: '127.0.0.1:9',
  zmq_address: '127.0.0.1:10',
  epoch: 'the same',
};

const opened = closedAfterwards();
afterEach(() => {
  vi.useRealTimers();
});

const nothing = (): void => {};

function start(forgotten: (instance: Instance) => void = nothing): Instances {
  const instances = new Instances(DEADLINES, { changed: nothing, failed: nothing, forgotten });
  opened(instances);
  return instances;
}

function isThere(instances: Instances): boolean {
  return instances.ready(() => true).length === 1;
}

describe('an instance that says nothing more', () => {
  it('is missed in time though the proxy itself stood still for long before, and heard it first of all', async () => {
    const instances = start();
    instances.register(MESSAGE);
    await sleep(2 * DEADLINES.sweep);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6 * EXPIRY_MS);
    instances.register(MESSAGE);
    await sleep(EXPIRY_MS / 10);
    expect(isThere(instances)).toBe(true);
    await sleep(3 * EXPIRY_MS);
    expect(isThere(instances)).toBe(false);
  });

  it('is missed in time where the clock is set back', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const instances = start();
    instances.register(MESSAGE);
    vi.setSystemTime(Date.now() - HOUR_MS);
    await sleep(3 * EXPIRY_MS);
    expect(isThere(instances)).toBe(false);
  });
});

describe('instances', () => {
  it('are as many as may be; one that is gone makes room for one more', () => {
    const forgotten: string[] = [];
    const instances = start(({ httpAddress }) => forgotten.push(httpAddress));
    const tell = (port: number, state: 'ready' | 'gone' = 'ready') =>
      instances.register({ ...MESSAGE, http_address: `127.0.0.1:${port}`, state });
    for (let port = 1; port <= MAX_INSTANCES; port += 1) expect(tell(port)).toBe(true);
    expect(tell(MAX_INSTANCES + 1)).toBe(false);
    expect(tell(7)).toBe(true);
    tell(7, 'gone');
    expect(tell(MAX_INSTANCES + 1)).toBe(true);
    expect([forgotten, instances.all.length]).toEqual([['127.0.0.1:7'], MAX_INSTANCES]);
  });

  it('that say goodbye and were never there are not listed', () => {
    const instances = start();
    expect(instances.register({ ...MESSAGE, state: 'gone' })).toBe(true);
    expect(instances.all).toEqual([]);
  });

  it('are not taken for any of their earlier runs', () => {
    const instances = start();
    for (const epoch of ['one', 'two', 'three']) instances.register({ ...MESSAGE, epoch });
    for (const epoch of ['one', 'two']) {
      instances.register({ ...MESSAGE, epoch });
      expect(instances.all[0]?.registration.epoch).toBe('three');
    }
  });
});

/** Answers nothing. */
async function startSilent(): Promise<{ http_address: string; server: Server }> {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  opened({ close: () => void server.close().closeAllConnections() });
  await once(server, 'listening');
  const address = server.address();
  return { http_address: `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`, server };
}

describe('a request to an instance', () => {
  it('that is cancelled before there is a connection is not sent', async () => {
    const { http_address, server } = await startSilent();
    const asked: (string | undefined)[] = [];
    server.on('request', ({ url }) => asked.push(url));
    const instances = start();
    instances.register({ ...MESSAGE, http_address });
    const [instance] = instances.ready(() => true);
    const ask = (path: string) => {
      const request = new UpstreamRequest(instance!, { method: 'GET', path, headers: {}, body: null });
      request.head.catch(() => {});
      return request;
    };
    const first = ask('/first');
    first.cancel(new Error('the client has left'));
    ask('/second');
    await expect(first.head).rejects.toThrow('the client has left');
    await until(() => asked.length > 0);
    await sleep(50);
    expect(asked).toEqual(['/second']);
  });

  it('is not silent for as long as its reader has paused it', async () => {
    const { http_address } = await startSilent();
    const instances = start();
    instances.register({ ...MESSAGE, http_address });
    const [instance] = instances.ready(() => true);
    const asked = { method: 'GET', path: '/', headers: {}, body: null } as const;
    const request = new UpstreamRequest(instance!, asked);
    request.maxSilence = 40;
    request.pause();
    await sleep(100);
    request.resume();
    request.checkSilence(performance.now());
    expect(instance?.openRequests.size).toBe(1);
    await expect(request.head).rejects.toThrow('sent nothing for too long');
  });
});

describe('notices that a transfer is over', () => {
  it('are under way in bounded number, each for a bounded time', async () => {
    const { http_address } = await startSilent();
    const instances = start();
    instances.register({ ...MESSAGE, http_address });
    const [instance] = instances.ready(() => true);
    const metrics = new ProxyMetrics(
      () => 0,
      () => [],
    );
    const notifier = new CancelNotifier(metrics, 300);
    const notify = () => {
      for (let times = 0; times < 600; times += 1) notifier.notify(instance!, 'an-id', undefined);
    };
    const counts = async () => {
      const { values } = await metrics.cancels.get();
      return Object.fromEntries(values.map(({ labels, value }) => [labels.outcome, value]));
    };
    notify();
    await until(async () => (await counts()).failed === 512);
    notify();
    await until(async () => (await counts()).failed === 1024);
    expect(await counts()).toEqual({ told: 0, failed: 1024, dropped: 176 });
  });
});

describe('the load of an instance', () => {
  it('is of the heartbeat before the one that tells it: what has ended since is no request of others', async () => {
    const { http_address } = await startSilent();
    const instances = start();
    const tell = (running: number) => {
      const load = { running, waiting: 0, free_blocks: 1, num_blocks: 1 };
      instances.register({ ...MESSAGE, http_address, load });
    };
    tell(0);
    const [instance] = instances.ready(() => true);
    const asked = { method: 'GET', path: '/', headers: {}, body: null } as const;
    const requests = [1, 2, 3].map(() => new UpstreamRequest(instance!, asked));
    const ended = Promise.allSettled(requests.map(({ head }) => head));
    tell(0);
    expect(instance?.numRequests).toBe(3);
    tell(3);
    expect(instance?.numRequests).toBe(3);
    for (const request of requests) request.cancel(new Error('enough'));
    await ended;
    tell(3);
    expect(instance?.numRequests).toBe(0);
    tell(2);
    expect(instance?.numRequests).toBe(2);
  });
});
