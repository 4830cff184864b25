// Blocks from GPU to GPU over NCCL, with a stand-in for it over the emulated driver: what holds beyond native-transfer.test.ts. Whoever dies
// or sticks, at whatever step: nothing hangs, and nothing is wrong.

import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR, NCCL_EMULATOR } from '../helpers/emulator-files.ts';
import { needs } from '../helpers/needs.ts';
import {
  range,
  type Shape,
  type TransferNode,
  transferNodes,
  wholeMemory,
} from '../helpers/transfer-node.ts';
import { transferProcesses } from '../helpers/transfer-process.ts';
import { until } from '../helpers/until.ts';

const SHAPE = { layers: 2, blocks: 16, layerBlockBytes: 512 };

const makeNode = transferNodes();
const node = (shape: Shape = SHAPE) => makeNode(shape, undefined, NCCL_EMULATOR);
const startProcess = transferProcesses();
const start = (at?: string) =>
  startProcess(SHAPE, NCCL_EMULATOR, at === undefined ? {} : { SVC_EMULATED_NCCL: at });
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Sends the first `count` blocks of `p`, which are saved, over `link`. */
function send(p: TransferNode, link: number, count: number, ticket = 1n): void {
  p.engine.openSend(1, count);
  p.engine.grant(1, link, ticket, 0);
  p.save(1, 0, range(count));
}

/** That `from` sends to `to` as if nothing had happened. */
async function expectWhole(from: TransferNode, to: TransferNode): Promise<void> {
  from.fill(range(4), 9);
  to.receive(99n, 4);
  send(from, await from.link('nccl', to.address('nccl')), 4, 99n);
  expect(await to.load(99n, range(4, 8))).toBe(true);
  expect(to.read(range(4, 8)).equals(from.read(range(4)))).toBe(true);
}

describe('a receiver over NCCL', needsCudaEmulator, () => {
  it.each(['kill:init', 'kill:recv', 'kill:abort'])(
    'that ends with %s calls the link down, and others go on',
    async (at) => {
      const [p, d, child] = [node(), node(), await start(at)];
      await child.obey({ do: 'receive', count: 4 });
      const link = p.engine.connect('nccl', child.address('nccl'), 1);
      send(p, link, 4);
      if (at === 'kill:abort') {
        await p.event('sent');
        child.order({ do: 'exit' });
      }
      expect((await p.event('linkDown')).reason).toMatch(/closed|gone|could not|reset/);
      p.engine.closeSend(1);
      await p.event('sendClosed');
      await expectWhole(p, d);
    },
  );

  it.each(['stick:init', 'stick:recv'])(
    'that sticks with %s holds nobody up, and is left when it is given up',
    async (at) => {
      const [p, d, child] = [node(), node(), await start(at)];
      await child.obey({ do: 'receive', count: 4 });
      const link = p.engine.connect('nccl', child.address('nccl'), 1);
      send(p, link, 4);
      await expectWhole(p, d);
      p.engine.closeSend(1);
      await p.event('sendClosed');
      p.engine.disconnect(link);
      await p.event('linkDown', (event) => event.link === link);
    },
  );

  it('that is stopped is left when it is given up', async () => {
    const [p, child] = [node(), await start()];
    await child.obey({ do: 'receive', count: 4 });
    const link = await p.link('nccl', child.address('nccl'));
    await child.stop();
    send(p, link, 4);
    p.engine.disconnect(link);
    await p.event('linkDown');
    child.signal('SIGCONT');
  });
});

describe('a sender over NCCL', needsCudaEmulator, () => {
  it.each(['kill:id', 'kill:init', 'kill:send'])(
    'that ends with %s leaves the receiver as it was',
    async (at) => {
      const [p, d, child] = [node(), node(), await start(at)];
      d.receive(1n, 4);
      const loading = d.load(1n, range(4));
      child.order({ do: 'send', kind: 'nccl', address: d.address('nccl'), count: 4 });
      expect(await child.ended()).toBe('SIGKILL');
      d.engine.closeReceive(1n);
      expect(await loading).toBe(false);
      await d.event('receiveClosed');
      await expectWhole(p, d);
    },
  );

  it.each(['stick:init', 'stick:send'])('that sticks with %s holds no other up', async (at) => {
    const [p, d, child] = [node(), node(), await start(at)];
    d.receive(1n, 4);
    child.order({ do: 'send', kind: 'nccl', address: d.address('nccl'), count: 4 });
    await expectWhole(p, d);
    d.engine.closeReceive(1n);
    await d.event('receiveClosed', ({ ticket }) => ticket === 1n);
  });
});

describe('an instance over NCCL', needsCudaEmulator, () => {
  it('closes although an abort does not return', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(2), 1);
    d.receive(1n, 2);
    send(p, await p.link('nccl', d.address('nccl')), 2);
    expect(await d.load(1n, [4, 5])).toBe(true);
    vi.stubEnv('SVC_EMULATED_NCCL', 'stick:abort');
    const before = performance.now();
    p.close();
    expect(performance.now() - before).toBeLessThan(10_000);
  });

  it('makes another communicator with each link', async () => {
    const [p, d] = [node(), node()];
    for (let i = 0; i < 3; i++) {
      p.forget();
      d.forget();
      await expectWhole(p, d);
      p.engine.disconnect(i + 1);
      await p.event('linkDown');
    }
  });

  it('says what is missing where it listens, or has a link', async () => {
    const { KvMemory, TransferEngine } = loadNative();
    const { SVC_CUDA_DRIVER, SVC_CUDA_KERNELS } = NCCL_EMULATOR;
    const listen = (memory: bigint, ncclLibrary: string) => () => {
      const nccl = { host: '127.0.0.1', port: 0 };
      new TransferEngine(
        wholeMemory(memory, 1),
        { receiveBytes: 0, tcp: null, shm: false, nccl, ncclLibrary },
        () => {},
      );
    };
    const memory = () => new KvMemory(1, 1, 64, SVC_CUDA_DRIVER, SVC_CUDA_KERNELS).share();
    expect(listen(memory(), '/nowhere/libnccl.so.2')).toThrow(
      /NCCL is not there \(\/nowhere\/libnccl.so.2: cannot open.*install NVIDIA's NCCL 2.17 or newer/,
    );
    expect(listen(memory(), 'libm.so.6')).toThrow('NCCL is too old (it has no ncclGetVersion): install 2.17');
    vi.stubEnv('SVC_EMULATED_NCCL_VERSION', '21602');
    expect(listen(memory(), NCCL_EMULATOR.SVC_NCCL)).toThrow(
      'NCCL is too old (21602): install 2.17 or newer',
    );
    expect(listen(new KvMemory(1, 1, 64).share(), NCCL_EMULATOR.SVC_NCCL)).toThrow(
      /memory of the host: use --device cuda/,
    );
    const p = makeNode(SHAPE, undefined, CUDA_EMULATOR);
    vi.unstubAllEnvs();
    p.engine.connect('nccl', node().address('nccl'), 1);
    expect((await p.event('linkDown')).reason).toMatch(/NCCL is not there/);
  });

  it('stops to wait for bytes that are no frame', async () => {
    const [p, other] = [node(), node({ ...SHAPE, layers: 3 })];
    const misfit = p.engine.connect('nccl', other.address('nccl'), 1);
    expect((await p.event('linkDown', ({ link }) => link === misfit)).reason).toBe(
      'the peer has refused: a KV cache of another shape',
    );
    const stranger = p.engine.connect('tcp', other.address('nccl'), 1);
    p.engine.openSend(1, 1);
    p.engine.grant(1, stranger, 1n, 0);
    p.save(1, 0, [0]);
    await p.event('linkDown', ({ link }) => link === stranger);
  });

  it('counts what it has sent', async () => {
    const [p, d] = [node(), node()];
    await expectWhole(p, d);
    await until(() => p.has('sent'));
    expect(p.engine.bytesSentOver('nccl')).toBe(4 * SHAPE.layers * SHAPE.layerBlockBytes);
  });
});

/** The sanitizer of undefined behaviour reads memory through a pipe. */
const needsNoPipes = needs(process.env.UBSAN_OPTIONS === undefined, 'sanitizers need descriptors');

describe('an instance without descriptors', needsCudaEmulator, () => {
  it('has no link, and goes on', needsNoPipes, async () => {
    const [d, child] = [node(), await start()];
    const connect = () => child.obey({ do: 'send', kind: 'nccl', address: d.address('nccl'), count: 4 });
    leaveDescriptors(child, 0);
    await connect();
    await until(() => child.has('linkDown'));
    expect(child.said.find(({ type }) => type === 'linkDown')?.reason).toMatch(/^no descriptors are left/);
    leaveDescriptors(child, 100);
    await connect();
    await until(() => child.has('linkUp'));
  });

  it('lets nobody link to it, and goes on', needsNoPipes, async () => {
    const [p, child] = [node(), await start()];
    await child.obey({ do: 'receive', count: 4 });
    leaveDescriptors(child, 1);
    p.engine.connect('nccl', child.address('nccl'), 1);
    await p.event('linkDown');
    leaveDescriptors(child, 100);
    send(p, await p.link('nccl', child.address('nccl')), 4);
    await until(() => child.has('received'));
  });
});

/** Beside those that it has. */
function leaveDescriptors({ pid }: { readonly pid: number }, count: number): void {
  const taken = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let limit = 0;
  for (let free = 0; free < count || taken.has(limit); limit++) if (!taken.has(limit)) free += 1;
  execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${limit}:`]);
}

const toolkit = ['-isystem', '/usr/local/cuda/include'];
const hasHeader =
  spawnSync('g++', ['-E', '-x', 'c++', ...toolkit, '-'], { input: '#include <nccl.h>\n' }).status === 0;

it(
  'is declared as in the header of NCCL',
  needs(hasHeader, 'g++ finds no nccl.h, nor does CPATH name its folder'),
  () => {
    const native = fileURLToPath(new URL('../../native', import.meta.url));
    const args = ['-std=c++20', '-fsyntax-only', `-I${native}/src`, ...toolkit];
    const compiled = spawnSync('g++', [...args, `${native}/test/nccl-declarations.cc`], { encoding: 'utf8' });
    expect(compiled).toMatchObject({ status: 0, stderr: '' });
  },
);
