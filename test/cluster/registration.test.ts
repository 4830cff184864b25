import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Router } from 'zeromq';
import { type RegistrationMessage, readRegistration } from '../../src/cluster/discovery-message.ts';
import { type Registered, Registration } from '../../src/cluster/registration.ts';
import { curveKeys, serverOptions } from '../../src/cluster/zmq.ts';
import type { KvTransferConfig } from '../../src/config/kv-transfer-config.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { needsIpv6 } from '../helpers/needs.ts';
import { freePort } from '../helpers/svc-process.ts';

const SECRET = 'a secret of our own';
const LOAD = { running: 1, waiting: 2, free_blocks: 3, num_blocks: 4 };

const opened = closedAfterwards(afterAll);

/** The discovery port of a proxy: what comes in, by the identity it comes from. */
async function listen(port: number, secret: string | null = null, host = '127.0.0.1') {
  const heard: { readonly from: string; readonly message: RegistrationMessage }[] = [];
  const router = new Router({
    linger: 0,
    handover: true,
    ipv6: host !== '127.0.0.1',
    ...serverOptions(curveKeys(secret)),
  });
  opened(router);
  await router.bind(`tcp://${host}:${port}`);
  void (async () => {
    for await (const [identity, payload] of router) {
      const read = readRegistration(payload!);
      if (read.isValid) heard.push({ from: identity!.toString(), message: read.message });
    }
  })();
  return { heard, router };
}

type Told = Pick<Registered, 'warn' | 'inform'>;

function register(config: KvTransferConfig, told: Told = {}): Registration {
  const model = { model: 'small', proxyToken: 'a token', keepsStates: true };
  const about = { ...model, load: async () => LOAD, ...told };
  const registration = Registration.start(config, about);
  if (registration === null) throw new Error('no proxy is named');
  return opened(registration);
}

async function behind(port: number, more: Partial<KvTransferConfig> = {}): Promise<KvTransferConfig> {
  const kvPort = await freePort();
  return kvTransferConfig({ port: kvPort, proxy: { ip: '127.0.0.1', port }, httpPort: 20001, ...more });
}

// Most of them wait.
describe('an instance', () => {
  it.each([
    ['kv_producer', 'P'],
    ['kv_both', 'P'],
    ['kv_consumer', 'D'],
  ] as const)('that is %s is a %s to the proxy', async (role, type) => {
    const port = await freePort();
    const { heard } = await listen(port);
    register(await behind(port, { role }));
    await expect.poll(() => heard[0]?.message.type).toBe(type);
  });
});

describe.concurrent('an instance', () => {
  it('registers at once, and says when it drains and when it goes', async ({ expect }) => {
    const port = await freePort();
    const { heard } = await listen(port);
    const config = await behind(port);
    const registration = register(config);
    await expect.poll(() => heard.length).toBe(1);
    const address = `127.0.0.1:${config.port}`;
    expect(heard[0]).toEqual({
      from: address,
      message: {
        type: 'D',
        http_address: '127.0.0.1:20001',
        zmq_address: address,
        state: 'ready',
        epoch: expect.stringMatching(/^[0-9a-f]{16}$/),
        model: 'small',
        load: LOAD,
        proxy_token: 'a token',
        role: 'kv_consumer',
        send_type: 'PUT_ASYNC',
        keeps_states: true,
      },
    });
    registration.drain();
    registration.close();
    await expect.poll(() => heard.map(({ message }) => message.state)).toEqual(['ready', 'draining', 'gone']);
  });

  it('goes on every three seconds', async ({ expect }) => {
    const port = await freePort();
    const { heard } = await listen(port);
    register(await behind(port));
    await expect.poll(() => heard.length, { timeout: 5000 }).toBe(2);
  });

  it('is told to a proxy that comes later, and to one that comes back, within a second', async ({
    expect,
  }) => {
    const port = await freePort();
    register(await behind(port));
    const first = await listen(port);
    await expect.poll(() => first.heard.length).toBeGreaterThan(0);
    first.router.close();
    // The port is free a moment later.
    const second = await vi.waitFor(() => listen(port));
    await expect.poll(() => second.heard.length).toBeGreaterThan(0);
  });

  it('is told within a second by an instance that has waited long, as it is by then', async ({ expect }) => {
    const port = await freePort();
    const registration = register(await behind(port));
    // Long enough for a heartbeat that must not be kept, and for pauses between attempts to have grown.
    await sleep(4400);
    registration.drain();
    const { heard } = await listen(port);
    const start = performance.now();
    await expect.poll(() => heard[0]?.message.state).toBe('draining');
    // Twice as long as it may take, for machines that are busy.
    expect(performance.now() - start).toBeLessThan(2000);
  });

  it('finds a proxy that has an IPv6 address', needsIpv6, async ({ expect }) => {
    const port = await freePort();
    const { heard } = await listen(port, null, '[::1]');
    register(await behind(port, { proxy: { ip: '::1', port } }));
    await expect.poll(() => heard.length).toBe(1);
  });

  it('is let in with the secret only, and says so where it is another', async ({ expect }) => {
    const port = await freePort();
    const { heard } = await listen(port, SECRET);
    const warnings: string[] = [];
    register(await behind(port, { secret: 'a secret of theirs' }), { warn: (text) => warnings.push(text) });
    await expect
      .poll(() => warnings)
      .toEqual([expect.stringContaining('is --kv-transfer-secret the same at both?')]);
    expect(heard).toEqual([]);
    register(await behind(port, { secret: SECRET }));
    await expect.poll(() => heard.length).toBe(1);
  });

  it.each([
    ['another secret', 'a secret of theirs'],
    ['none', null],
  ])('is let in by the proxy with its secret that follows one with %s', async (_, theirs) => {
    const port = await freePort();
    const warnings: string[] = [];
    register(await behind(port, { secret: SECRET }), { warn: (text) => warnings.push(text) });
    const first = await listen(port, theirs);
    await expect
      .poll(() => warnings.some((text) => text.includes('does not let this instance in')))
      .toBe(true);
    first.router.close();
    const second = await vi.waitFor(() => listen(port, SECRET));
    await expect.poll(() => second.heard.length, { timeout: 8000 }).toBeGreaterThan(0);
  });

  it('without a secret is let in once its proxy wants none any more', async ({ expect }) => {
    const port = await freePort();
    const first = await listen(port, SECRET);
    const warnings: string[] = [];
    register(await behind(port), { warn: (text) => warnings.push(text) });
    await expect.poll(() => warnings).toEqual([expect.stringContaining('does not let this instance in')]);
    first.router.close();
    const second = await vi.waitFor(() => listen(port));
    await expect.poll(() => second.heard.length, { timeout: 8000 }).toBeGreaterThan(0);
  });

  it('says that no proxy is there, when one has let it in, and that it has gone, each once', async ({
    expect,
  }) => {
    const port = await freePort();
    const log: string[] = [];
    const say = (text: string) => void log.push(text);
    register(await behind(port), { warn: say, inform: say });
    const isMissing = `no proxy answers yet at 127.0.0.1:${port}: looking for it (proxy_ip and proxy_port must be --discovery-host and --discovery-port of svc proxy)`;
    await expect.poll(() => log, { timeout: 5000 }).toEqual([isMissing]);
    const { router } = await listen(port);
    const isIn = `registered with the proxy at 127.0.0.1:${port}`;
    await expect.poll(() => log, { timeout: 5000 }).toEqual([isMissing, isIn]);
    router.close();
    const hasGone = `the proxy at 127.0.0.1:${port} has gone: looking for it`;
    await expect.poll(() => log).toEqual([isMissing, isIn, hasGone]);
  });

  it('without a proxy registers nowhere', () => {
    expect(Registration.start(kvTransferConfig({}), { model: 'small', load: async () => LOAD })).toBeNull();
  });
});

describe('an instance whose thread stands still', () => {
  it('that goes while its proxy lets it in says goodbye, and nothing after it', async () => {
    const port = await freePort();
    const { heard } = await listen(port);
    const unheard: unknown[] = [];
    const note = (reason: unknown): void => void unheard.push(reason);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const registration = register(await behind(port));
    // ZeroMQ makes the connection on threads of its own; this one hears of it once it has closed the socket.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    registration.close();
    await expect.poll(() => heard.map(({ message }) => message.state)).toEqual(['gone']);
    expect(unheard).toEqual([]);
  });
});
