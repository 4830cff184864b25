// Which instances are there, while time does not pass evenly.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { RegistrationMessage } from '../../src/cluster/discovery-message.ts';
import { PROXY_DEADLINES } from '../../src/proxy/deadlines.ts';
import { Instances } from '../../src/proxy/instances.ts';
import { UpstreamRequest } from '../../src/proxy/upstream-request.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';

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

function start(): Instances {
  const nothing = (): void => {};
  const instances = new Instances(DEADLINES, { changed: nothing, failed: nothing, forgotten: nothing });
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

describe('the load of an instance', () => {
  it('is of the heartbeat before the one that tells it: what has ended since is no request of others', async () => {
    const server = createServer(() => {}).listen(0, '127.0.0.1');
    opened({ close: () => void server.close().closeAllConnections() });
    await once(server, 'listening');
    const address = server.address();
    const http_address = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
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
