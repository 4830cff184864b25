// Transfer engines begin and end - closed, left behind, killed - without taking anything with them or leaving it.

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { needsNative } from '../helpers/needs.ts';
import { KINDS, range, SHAPE, TransferNode, transferNodes, wholeMemory } from '../helpers/transfer-node.ts';
import { ADDON, transferProcesses } from '../helpers/transfer-process.ts';
import { until } from '../helpers/until.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
const node = transferNodes();
const start = transferProcesses();
const OPTIONS = { receiveBytes: 0, tcp: null, shm: false };
const BIG = { layers: 4, blocks: 256, layerBlockBytes: 65_536 };

/** Sockets, shared memory and event descriptors of this process. */
function descriptors(): number {
  const names = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return names.filter((name) => /^(socket:|\/memfd:svc-kv|anon_inode:\[event)/.test(name)).length;
}

function mappedKvMemories(): number {
  return readFileSync('/proc/self/maps', 'utf8').split('memfd:svc-kv').length - 1;
}

function threads(): number {
  return readdirSync('/proc/self/task').length;
}

/** What earlier tests have left goes before this one counts: until there is nothing more to collect. */
async function settled(): Promise<void> {
  let before = Number.POSITIVE_INFINITY;
  await collected(() => {
    const left = descriptors() + mappedKvMemories() + threads();
    const isSettled = left === before;
    before = left;
    return isSettled;
  });
}

async function collected(isTrue: () => boolean): Promise<void> {
  await until(() => {
    collectGarbage();
    return isTrue();
  });
}

describe('a token', needsNative, () => {
  it('lets one engine adopt the memory', () => {
    const { KvMemory, TransferEngine } = loadNative();
    const token = new KvMemory(1, 1, 64).share();
    new TransferEngine(wholeMemory(token, 1), OPTIONS, () => {}).close();
    expect(() => new TransferEngine(wholeMemory(token, 1), OPTIONS, () => {})).toThrow(
      /names no KV memory, or was used before/,
    );
  });

  it.each([0n, 1n, 2n ** 64n - 1n])('that was made up (%i) is refused', (token) => {
    const { TransferEngine } = loadNative();
    expect(() => new TransferEngine(wholeMemory(token, 1), OPTIONS, () => {})).toThrow(/names no KV memory/);
  });

  it('of another thread is as good', async () => {
    const source = `const { workerData: addon, parentPort } = require('node:worker_threads');
      globalThis.memory = new (require(addon).KvMemory)(1, 4, 64);
      parentPort.postMessage(memory.share());
      parentPort.once('message', () => {
        memory.onKvStep(Int32Array.from([1, 0, 2, 0, 1]));
        memory.onKvLayerSaved(0);
      });`;
    const worker = new Worker(source, { eval: true, workerData: ADDON });
    const token = await new Promise<bigint>((resolve) => worker.once('message', resolve));
    const { TransferEngine } = loadNative();
    const engine = new TransferEngine(wholeMemory(token, 1), OPTIONS, () => {});
    const d = node({ layers: 1, blocks: 4, layerBlockBytes: 64 });
    d.receive(1n, 2);
    engine.openSend(1, 2);
    engine.grant(1, engine.connect('shm', d.address('shm'), 1), 1n, 0);
    worker.postMessage('save');
    await d.event('received');
    await worker.terminate();
    // The memory stays as long as the engine.
    d.receive(2n, 2);
    engine.grant(1, engine.connect('tcp', d.address('tcp'), 1), 2n, 0);
    await d.event('received', ({ ticket }) => ticket === 2n);
    engine.close();
  });
});

describe('saved blocks', needsNative, () => {
  it.each([
    [[1, 0, 2, 5]],
    [[1, 0]],
    [[1, 0, -1]],
    [[1, -1, 1, 5]],
    [[-1, 0, 1, 5]],
    [[1, 0, 1, 64]],
    [[1, 3, 2, 5, 6]],
    [[1, 0, 1, 5, 1, 0, 1, 5]],
    [[9, 0, 1, -5]],
  ])('refuses %j', (entries) => {
    const p = node();
    p.engine.openSend(1, 4);
    expect(() => p.memory.onKvStep(Int32Array.from(entries))).toThrow(/the blocks of a step/);
    expect(() => p.memory.onKvLayerSaved(3)).toThrow(/onKvLayerSaved/);
  });

  it('does not touch a send that was opened under the same number in the middle of the step', async () => {
    const [p, d] = [node(), node()];
    const link = await p.link('shm', d.address('shm'));
    d.receive(1n, 4);
    p.engine.openSend(1, 4);
    p.memory.onKvStep(Int32Array.from([1, 0, 2, 0, 1]));
    p.memory.onKvLayerSaved(0);
    p.engine.closeSend(1);
    p.engine.openSend(1, 4);
    p.engine.grant(1, link, 1n, 0);
    p.memory.onKvLayerSaved(1);
    p.memory.onKvLayerSaved(2);
    p.save(1, 0, range(4));
    await d.event('received');
    await p.event('sent');
    expect(p.engine.bytesSent).toBe(4 * 3 * 4096);
  });
});

describe('an engine that is closed', needsNative, () => {
  it.each(KINDS)(
    'in the middle of transfers over %s waits for none of them, and tells nothing more',
    async (kind) => {
      const [p, d] = [node(BIG), node(BIG)];
      const link = await p.link(kind, d.address(kind));
      for (const send of [1, 2, 3]) {
        d.receive(BigInt(send), 256);
        p.engine.openSend(send, 256);
        p.engine.grant(send, link, BigInt(send), 0);
        // The last block never comes: the transfers have no end.
        p.save(send, 0, range(255));
      }
      await until(() => d.engine.progress(1n) > 0);
      d.engine.load(1, 1n, 0, Int32Array.from(range(256)));
      d.engine.close();
      await p.event('linkDown');
      p.engine.close();
      const numEvents = p.events.length;
      // Events come between turns of the event loop: any that was on its way comes before the second one.
      await nextTurn();
      await nextTurn();
      expect(p.events).toHaveLength(numEvents);
      expect(() => p.engine.bytesSent).toThrow('the transfer engine is closed');
      p.save(1, 0, range(4));
    },
  );

  it('leaves no sockets, descriptors, mappings and threads', async () => {
    const cycle = async () => {
      const [p, d] = [new TransferNode(), new TransferNode()];
      for (const [i, kind] of KINDS.entries()) {
        const ticket = BigInt(i + 1);
        d.receive(ticket, 4);
        p.engine.openSend(i, 4);
        p.engine.grant(i, await p.link(kind, d.address(kind)), ticket, 0);
        p.save(i, 0, range(4));
        await d.event('received', (event) => event.ticket === ticket);
      }
      p.close();
      d.close();
    };
    await settled();
    const had = { descriptors: descriptors(), threads: threads(), mapped: mappedKvMemories() };
    for (let i = 0; i < 20; i++) await cycle();
    await collected(() => descriptors() <= had.descriptors && mappedKvMemories() <= had.mapped);
    expect(threads()).toBeLessThanOrEqual(had.threads);
  });

  it('leaves its peers nothing either', async () => {
    const p = node();
    await settled();
    const before = descriptors();
    for (let i = 0; i < 20; i++) {
      const d = new TransferNode();
      for (const kind of KINDS) await p.link(kind, d.address(kind));
      d.close();
      await until(() => p.events.filter((event) => event.type === 'linkDown').length === 2 * (i + 1));
    }
    // The last one may still be within reach.
    await collected(() => descriptors() <= before + 1);
  });

  it('cannot take an address that another one has', () => {
    const { KvMemory, TransferEngine } = loadNative();
    const port = Number(node().address('tcp').split(':')[1]);
    const tcp = { host: '127.0.0.1', port };
    const numThreads = threads();
    const make = () =>
      new TransferEngine(wholeMemory(new KvMemory(1, 1, 64).share(), 1), { ...OPTIONS, tcp }, () => {});
    expect(make).toThrow(`127.0.0.1:${port} cannot be listened on: Address already in use`);
    expect(threads()).toBe(numThreads);
  });
});

describe('a worker', needsNative, () => {
  it('that is terminated in the middle of transfers ends with its threads', async () => {
    const d = node(BIG);
    d.receive(1n, 256);
    const numThreads = threads();
    const source = `const { workerData, parentPort } = require('node:worker_threads');
      const { KvMemory, TransferEngine } = require(workerData.addon);
      const memory = new KvMemory(4, 256, 65536);
      const options = { receiveBytes: 0, tcp: null, shm: true };
      const parts = [{ token: memory.share(), layers: { first: 0, end: 4 }, heads: { first: 0, end: 1 } }];
      const engine = new TransferEngine(parts, options, () => {});
      engine.openSend(1, 256);
      engine.grant(1, engine.connect('tcp', workerData.address, 2), 1n, 0);
      memory.onKvStep(Int32Array.from([1, 0, 256, ...Array(256).keys()]));
      for (let layer = 0; layer < 4; layer++) memory.onKvLayerSaved(layer);
      parentPort.postMessage('saved');
      setInterval(() => {}, 1000);`;
    const worker = new Worker(source, {
      eval: true,
      workerData: { addon: ADDON, address: d.address('tcp') },
    });
    await until(() => d.engine.progress(1n) > 0);
    await worker.terminate();
    await until(() => threads() <= numThreads);
  });
});

describe.each(KINDS)('a process at the other end of %s', needsNative, (kind) => {
  it('that is killed has its link called down and leaves nothing', async () => {
    const [p, child] = [node(BIG), await start(BIG)];
    const { pid } = child;
    await child.obey({ do: 'receive', count: 256 });
    const link = await p.link(kind, child.address(kind));
    p.engine.openSend(1, 256);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(128));
    await until(() => p.engine.bytesSent > 0);
    child.signal('SIGKILL');
    await p.event('linkDown');
    expect(await child.ended()).toBe('SIGKILL');
    expect(readFileSync('/proc/net/unix', 'utf8')).not.toContain(`svc-kv-${pid}-`);
    expect(readdirSync('/dev/shm').filter((name) => name.includes('svc-kv'))).toEqual([]);
  });

  it('that is killed while it sends leaves the receiver as it was', async () => {
    const [d, child] = [node(BIG), await start(BIG)];
    const mapped = mappedKvMemories();
    d.receive(1n, 256);
    await child.obey({ do: 'send', kind, address: d.address(kind), count: 250 });
    await until(() => d.engine.progress(1n) > 0);
    child.signal('SIGKILL');
    await child.ended();
    d.engine.closeReceive(1n);
    await d.event('receiveClosed');
    await until(() => mappedKvMemories() === mapped);
    const p = node(BIG);
    p.fill(range(4), 1);
    d.receive(2n, 4);
    p.engine.openSend(1, 4);
    p.engine.grant(1, await p.link(kind, d.address(kind)), 2n, 0);
    p.save(1, 0, range(4));
    await d.event('received', ({ ticket }) => ticket === 2n);
  });

  it.each(['exit', 'return'] as const)('ends well in the middle of a transfer (%s)', async (how) => {
    const [d, child] = [node(BIG), await start(BIG)];
    d.receive(1n, 256);
    child.order({ do: 'send', kind, address: d.address(kind), count: 256 });
    child.order({ do: how });
    expect(await child.ended()).toBe(0);
  });
});

it(
  'finds that blocks were overwritten before the receiver had copied them out of the shared memory',
  needsNative,
  async () => {
    const shape = { ...SHAPE, blocks: 8 };
    const [p, child] = [node(shape), await start(shape)];
    p.fill(range(8), 1);
    const link = await p.link('shm', child.address('shm'));
    await child.obey({ do: 'receive', count: 8 });
    await child.stop();
    p.engine.openSend(1, 8);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(8));
    await p.event('sent');
    p.fill([3], 2);
    child.signal('SIGCONT');
    await until(() => child.has('corrupt'));
    expect(child.has('received')).toBe(false);
    p.engine.grant(1, link, 1n, 0);
    await until(() => child.has('received'));
  },
);
