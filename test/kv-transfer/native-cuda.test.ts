// Blocks of GPUs: what holds beyond native-transfer.test.ts, over the emulated driver.

import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { ByteRelay } from '../helpers/byte-relay.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR } from '../helpers/emulator-files.ts';
import { range, type Shape, transferNodes, wholeMemory } from '../helpers/transfer-node.ts';
import { until } from '../helpers/until.ts';
import { beginStep } from '../ops/steps.ts';

const SHAPE = { layers: 2, blocks: 16, layerBlockBytes: 512 };
/** A frame fills the buffers of a socket. */
const BIG = { layers: 2, blocks: 16, layerBlockBytes: 4 << 20 };

const makeNode = transferNodes();
const node = (shape: Shape) => makeNode(shape, undefined, CUDA_EMULATOR);
afterEach(() => void vi.unstubAllEnvs());
const opened = closedAfterwards();

async function relayTo(address: string): Promise<ByteRelay> {
  return opened(await ByteRelay.start(address));
}

/** Resolves once so many bytes of a connection have come to `relay`, which takes no more then. */
function pauseAfter(relay: ByteRelay, count: number): Promise<void> {
  return new Promise((resolve) => {
    relay.change = (bytes, offset) => {
      if (offset + bytes.length >= count) {
        relay.change = (later) => later;
        relay.pause();
        resolve();
      }
      return bytes;
    };
  });
}

describe('blocks of a GPU', needsCudaEmulator, () => {
  it('come from and to blocks of the host as well', async () => {
    const [gpu, host] = [node(SHAPE), makeNode(SHAPE)];
    host.fill(range(4), 1);
    gpu.fill(range(4), 2);
    for (const [from, to] of [
      [host, gpu],
      [gpu, host],
    ] as const) {
      to.receive(1n, 4);
      from.engine.openSend(1, 4);
      from.engine.grant(1, await from.link('shm', to.address('shm')), 1n, 0);
      from.save(1, 0, range(4));
      expect(await to.load(1n, range(4, 8))).toBe(true);
      expect(to.read(range(4, 8)).equals(from.read(range(4)))).toBe(true);
    }
  });

  it('can be used again as soon as their send is closed, in the middle of a frame too', async () => {
    const [p, d] = [node(BIG), node(BIG)];
    const relay = await relayTo(d.address('tcp'));
    p.fill(range(4), 1);
    const expected = p.read([0]);
    const link = await p.link('tcp', relay.address, 1);
    const isAmidFrame = pauseAfter(relay, 1 << 20);
    d.receive(1n, 4);
    p.engine.openSend(1, 4);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(4));
    await isAmidFrame;
    p.engine.closeSend(1);
    await p.event('sendClosed');
    p.fill(range(4), 2);
    relay.resume();
    // What had begun is completed, as it was; the link is of use afterwards.
    d.receive(2n, 1);
    p.engine.openSend(2, 1);
    p.engine.grant(2, link, 2n, 0);
    p.save(2, 0, [0]);
    expect(await d.load(2n, [9])).toBe(true);
    expect(d.read([9]).equals(p.read([0]))).toBe(true);
    expect(expected.equals(p.read([0]))).toBe(false);
    expect([d.has('corrupt'), p.has('linkDown')]).toEqual([false, false]);
    expect(d.engine.progress(1n)).toBeGreaterThan(0);
  });

  it('take turns where more sockets are stuck than there are places for frames', async () => {
    const [p, slow, quick] = [
      node({ ...BIG, layers: 1 }),
      node({ ...BIG, layers: 1 }),
      node({ ...BIG, layers: 1 }),
    ];
    p.fill(range(2), 3);
    const relay = await relayTo(slow.address('tcp'));
    const links = await Promise.all(range(3).map(() => p.link('tcp', relay.address, 15)));
    relay.pause();
    // More than all sockets swallow.
    const sends = range(120, 1);
    for (const send of sends) {
      p.engine.openSend(send, 1);
      p.engine.grant(send, links[send % 3]!, BigInt(send), 0);
      p.save(send, 0, [0]);
    }
    await sleep(1000);
    const toQuick = await p.link('tcp', quick.address('tcp'), 1);
    quick.receive(99n, 1);
    p.engine.openSend(999, 1);
    p.engine.grant(999, toQuick, 99n, 0);
    p.save(999, 0, [1]);
    await sleep(300);
    expect(quick.engine.progress(99n)).toBe(0);
    // Sends that are given up, as those that make no progress are, make place.
    for (const send of sends) p.engine.closeSend(send);
    await quick.event('received');
    expect(await quick.load(99n, [5])).toBe(true);
    expect(quick.read([5]).equals(p.read([1]))).toBe(true);
  });

  it('are refused where the GPU has no room for them', () => {
    expect(() => node({ layers: 1, blocks: 4096, layerBlockBytes: 1 << 20 })).toThrow(
      /could not allocate memory \(CUDA_ERROR_OUT_OF_MEMORY/,
    );
  });
});

describe('a GPU that fails', needsCudaEmulator, () => {
  it('ends link and load with the reason, and nothing hangs', async () => {
    const p = node(SHAPE);
    p.fill(range(4), 1);
    // The four blocks of a layer lie together.
    vi.stubEnv('SVC_EMULATED_COPIES', '1');
    const d = node(SHAPE);
    const link = await p.link('tcp', d.address('tcp'), 1);
    d.receive(1n, 4);
    p.engine.openSend(1, 4);
    p.engine.grant(1, link, 1n, 0);
    p.memory.onKvStep(Int32Array.of(1, 0, 4, ...range(4)));
    p.memory.onKvLayerSaved(0);
    await until(() => d.engine.progress(1n) === 4);
    p.memory.onKvLayerSaved(1);
    expect((await p.event('linkDown')).reason).toMatch(
      /^the GPU could not copy from its KV memory \(CUDA_ERROR_LAUNCH_FAILED/,
    );
    // The first layer has come, and no copy into a block works.
    expect(await d.load(1n, range(4, 8))).toBe(false);
    p.engine.closeSend(1);
    d.engine.closeReceive(1n);
    await Promise.all([p.event('sendClosed'), d.event('receiveClosed')]);
  });
});

it('a layer leaves when it is stored, however long that takes', needsCudaEmulator, async () => {
  const cuda = openCuda();
  const shape = { layers: 2, blocks: 3, blockSize: 16, kvHeads: 1, headDim: 8, dtype: 'bf16' } as const;
  const cache = cuda.makeKvCache(shape, true);
  const d = makeNode({ layers: 2, blocks: 3, layerBlockBytes: cache.layerBlockBytes, tokens: 16 });
  const options = { receiveBytes: 0, tcp: null, shm: false };
  const p = new (loadNative().TransferEngine)(wholeMemory(cuda.shareKvMemory(cache), 2), options, () => {});
  try {
    d.receive(7n, 1);
    p.openSend(1, 1);
    p.grant(1, p.connect('shm', d.address('shm'), 1), 7n, 0);
    const rows = cuda.tensor(new Float32Array(16 * 8).fill(0.5), 16, 8, 'f32');
    const slow = cuda.tensor(new Float32Array(1024 * 1024), 1024, 1024, 'f32');
    const step = beginStep(cuda, cache, 16, {
      sends: Int32Array.of(1, 0, 1, 0),
      slotMapping: Int32Array.from(range(16)),
    });
    for (const layer of [0, 1]) {
      cuda.scale(slow, 2);
      cuda.storeKv(rows, rows, step, layer);
    }
    expect(d.engine.progress(7n)).toBe(0);
    await d.event('received');
    expect(await d.load(7n, [2])).toBe(true);
    const block = d.read([2]);
    const stored = Array.from({ length: block.length / 2 }, (_, index) => block.readUInt16LE(2 * index));
    expect(new Set(stored)).toEqual(new Set([0x3f00]));
  } finally {
    p.close();
    cuda.close();
  }
});
