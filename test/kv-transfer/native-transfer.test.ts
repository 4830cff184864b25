// Blocks go from one KV memory into another through the native threads, over each kind of link.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import type { NativeTransferEngine } from '../../src/native/native-transfer.ts';
import type { KvCache, Ops, StepInputs } from '../../src/ops/ops.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { NCCL_EMULATOR } from '../helpers/emulator-files.ts';
import { needsNative } from '../helpers/needs.ts';
import {
  KINDS,
  type Kind,
  range,
  type Shape,
  type TransferNode,
  transferNodes,
  wholeMemory,
} from '../helpers/transfer-node.ts';
import { until } from '../helpers/until.ts';
import { openCpu } from '../ops/native-backends.ts';
import { beginStep } from '../ops/steps.ts';

const makeNode = transferNodes();
/** That has the blocks, if one has them. */
let gpu: typeof NCCL_EMULATOR | undefined;
const node = (shape?: Shape) => makeNode(shape, undefined, gpu);

describe('blocks of the host', needsNative, () => {
  describe.each(KINDS)('over %s', transfers);
});

describe('blocks of a GPU', needsCudaEmulator, () => {
  beforeAll(() => {
    gpu = NCCL_EMULATOR;
  });
  afterAll(() => {
    gpu = undefined;
  });
  describe.each([...KINDS, 'cuda-ipc', 'nccl'] as const)('over %s', transfers);
});

function transfers(kind: Kind): void {
  it('brings every piece of a transfer bit for bit into the blocks it is loaded to', async () => {
    const [p, d] = [node(), node()];
    const [from, to] = [range(7, 20).reverse(), range(7, 3)];
    p.fill(from, 1);
    const link = await p.link(kind, d.address(kind));
    d.receive(99n, 7);
    p.engine.openSend(5, 7);
    p.engine.grant(5, link, 99n, 0);
    p.save(5, 0, from);
    await d.event('received', (event) => event.ticket === 99n);
    await p.event('sent', (event) => event.send === 5);
    expect(await d.load(99n, to)).toBe(true);
    expect(d.read(to).equals(p.read(from))).toBe(true);
    expect([p.engine.bytesSent, d.engine.bytesReceived]).toEqual([7 * 3 * 4096, 7 * 3 * 4096]);
  });

  // GPUs copy 16 bytes at a time.
  const sizes =
    kind === 'cuda-ipc' || kind === 'nccl'
      ? [16, 4080, 70_000, 1_500_000]
      : [1, 7, 24, 100, 4099, 70_001, 1_500_000];
  it.each(sizes)('moves pieces of %i bytes', async (layerBlockBytes) => {
    const shape = { layers: 2, blocks: 5, layerBlockBytes };
    const [p, d] = [node(shape), node(shape)];
    p.fill([4, 0, 2], 2);
    const link = await p.link(kind, d.address(kind));
    d.receive(1n, 3);
    p.engine.openSend(1, 3);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, [4, 0, 2]);
    await d.event('received');
    expect(await d.load(1n, [1, 2, 3])).toBe(true);
    expect(d.read([1, 2, 3]).equals(p.read([4, 0, 2]))).toBe(true);
  });

  it('sends each layer as soon as it is saved, step by step', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(10), 3);
    const link = await p.link(kind, d.address(kind));
    d.receive(7n, 10);
    p.engine.openSend(1, 10);
    p.engine.grant(1, link, 7n, 0);
    let expected = 0;
    for (const [first, count] of [
      [0, 4],
      [4, 1],
      [5, 5],
    ] as const) {
      p.memory.onKvStep(Int32Array.from([1, first, count, ...range(count, first)]));
      for (let layer = 0; layer < 3; layer++) {
        expect(d.engine.progress(7n)).toBe(expected);
        p.memory.onKvLayerSaved(layer);
        expected += count;
        await until(() => d.engine.progress(7n) === expected);
      }
    }
    await d.event('received');
    expect(await d.load(7n, range(10, 30))).toBe(true);
    expect(d.read(range(10, 30)).equals(p.read(range(10)))).toBe(true);
  });

  it('remembers what was saved before the grant', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(6), 4);
    p.engine.openSend(1, 6);
    p.save(1, 0, [0, 1, 2]);
    p.memory.onKvStep(Int32Array.from([1, 3, 3, 3, 4, 5]));
    p.memory.onKvLayerSaved(0);
    const link = await p.link(kind, d.address(kind));
    d.receive(8n, 6);
    p.engine.grant(1, link, 8n, 0);
    await until(() => d.engine.progress(8n) === 3 * 3 + 3);
    p.memory.onKvLayerSaved(1);
    p.memory.onKvLayerSaved(2);
    await d.event('received');
    expect(await d.load(8n, range(6, 10))).toBe(true);
    expect(d.read(range(6, 10)).equals(p.read(range(6)))).toBe(true);
  });

  it('saves blocks of several sends in one step, and none that is not open', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(5), 5);
    const link = await p.link(kind, d.address(kind));
    for (const [send, count] of [
      [1, 2],
      [3, 3],
    ] as const) {
      d.receive(BigInt(send), count, 0, send * 4);
      p.engine.openSend(send, count);
      p.engine.grant(send, link, BigInt(send), 0);
    }
    p.memory.onKvStep(Int32Array.from([1, 0, 2, 0, 1, 2, 0, 1, 60, 3, 0, 3, 2, 3, 4]));
    for (const layer of [0, 1, 2]) p.memory.onKvLayerSaved(layer);
    await d.event('received', (event) => event.ticket === 1n);
    await d.event('received', (event) => event.ticket === 3n);
    expect([await d.load(1n, [10, 11]), await d.load(3n, [12, 13, 14])]).toEqual([true, true]);
    expect(d.read(range(5, 10)).equals(p.read(range(5)))).toBe(true);
  });

  it('sends only blocks from the granted one on', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(9), 6);
    const link = await p.link(kind, d.address(kind));
    d.receive(2n, 4, 5);
    p.engine.openSend(1, 9);
    p.save(1, 0, range(3));
    p.save(1, 3, range(6, 3));
    p.engine.grant(1, link, 2n, 5);
    await d.event('received');
    await p.event('sent');
    expect(p.engine.bytesSent).toBe(4 * 3 * 4096);
    expect(await d.load(2n, [40, 41, 42], 6)).toBe(true);
    expect(d.read([40, 41, 42]).equals(p.read([6, 7, 8]))).toBe(true);
  });

  it('sends everything again under another grant', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(5), 7);
    const first = await p.link(kind, d.address(kind));
    d.receive(1n, 5);
    p.engine.openSend(1, 5);
    p.engine.grant(1, first, 1n, 0);
    p.save(1, 0, range(5));
    await d.event('received', (event) => event.ticket === 1n);
    d.engine.closeReceive(1n);
    await d.event('receiveClosed');
    p.engine.disconnect(first);
    expect((await p.event('linkDown')).reason).toMatch('closed by this instance');
    d.receive(2n, 5);
    p.engine.grant(1, await p.link(kind, d.address(kind)), 2n, 0);
    await d.event('received', (event) => event.ticket === 2n);
    expect(await d.load(2n, range(5, 50))).toBe(true);
    expect(d.read(range(5, 50)).equals(p.read(range(5)))).toBe(true);
  });

  it('says that all has left under each grant, however many blocks it is for', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(5), 7);
    const link = await p.link(kind, d.address(kind));
    p.engine.openSend(1, 5);
    p.save(1, 0, range(5));
    for (const [ticket, first] of [
      [1n, 0],
      [2n, 2],
    ] as const) {
      p.forget();
      d.receive(ticket, 5 - first, first);
      p.engine.grant(1, link, ticket, first);
      await p.event('sent');
    }
    expect(p.engine.bytesSent).toBe((5 + 3) * 3 * 4096);
  });

  it('counts no piece twice that comes twice', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(4), 8);
    const link = await p.link(kind, d.address(kind), 1);
    d.receive(1n, 4);
    p.engine.openSend(1, 4);
    p.save(1, 0, [0, 1]);
    p.engine.grant(1, link, 1n, 0);
    await until(() => d.engine.progress(1n) === 6);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 2, [2, 3]);
    await d.event('received');
    await p.event('sent');
    expect(d.events.filter((event) => event.type === 'received')).toHaveLength(1);
    expect(d.engine.progress(1n)).toBe(12);
    expect(await d.load(1n, range(4, 8))).toBe(true);
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
  });

  it('lets go of both sides in the middle, and goes on with others', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(8), 9);
    const link = await p.link(kind, d.address(kind));
    d.receive(1n, 8);
    p.engine.openSend(1, 8);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(3));
    await until(() => d.engine.progress(1n) === 9);
    p.engine.closeSend(1);
    await p.event('sendClosed', (event) => event.send === 1);
    p.save(1, 3, range(5, 3));
    d.engine.closeReceive(1n);
    await d.event('receiveClosed', (event) => event.ticket === 1n);
    expect(d.engine.progress(1n)).toBe(0);
    expect(await d.load(1n, range(8))).toBe(false);

    d.receive(2n, 8);
    p.engine.openSend(2, 8);
    p.engine.grant(2, link, 2n, 0);
    p.save(2, 0, range(8));
    await d.event('received', (event) => event.ticket === 2n);
    await p.event('sent', (event) => event.send === 2);
    expect(p.has('linkDown')).toBe(false);
  });

  it('throws away what comes under a ticket that is not open', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(8), 10);
    const link = await p.link(kind, d.address(kind), 1);
    for (const send of [1, 2]) p.engine.openSend(send, 8);
    d.receive(2n, 8);
    p.engine.grant(1, link, 12345n, 0);
    p.save(1, 0, range(8));
    await p.event('sent', (event) => event.send === 1);
    p.engine.grant(2, link, 2n, 0);
    p.save(2, 0, range(8));
    await d.event('received', (event) => event.ticket === 2n);
    expect(d.engine.bytesReceived).toBe(8 * 3 * 4096);
    expect(await d.load(2n, range(8, 20))).toBe(true);
    expect(d.read(range(8, 20)).equals(p.read(range(8)))).toBe(true);
  });

  it('lets a short transfer overtake a long one', async () => {
    const shape = { layers: 2, blocks: 4096, layerBlockBytes: 64 };
    const [p, d] = [node(shape), node(shape)];
    const link = await p.link(kind, d.address(kind), 1);
    d.receive(1n, 4095);
    d.receive(2n, 1, 0, 4095);
    p.engine.openSend(1, 4095);
    p.engine.openSend(2, 1);
    p.engine.grant(1, link, 1n, 0);
    p.engine.grant(2, link, 2n, 0);
    p.memory.onKvStep(Int32Array.from([1, 0, 4095, ...range(4095), 2, 0, 1, 4095]));
    p.memory.onKvLayerSaved(0);
    p.memory.onKvLayerSaved(1);
    await d.event('received', (event) => event.ticket === 1n);
    const order = d.events.flatMap((event) => (event.type === 'received' ? [event.ticket] : []));
    expect(order).toEqual([2n, 1n]);
  });

  it('fills blocks as they come where they were asked for before, and says so when all have come', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(6), 11);
    const link = await p.link(kind, d.address(kind));
    d.receive(1n, 6);
    const loads = [d.load(1n, range(6, 10)), d.load(1n, range(4, 20), 2)];
    p.engine.openSend(1, 6);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(4));
    await until(() => d.read(range(4, 10)).equals(p.read(range(4))));
    await until(() => d.read([20, 21]).equals(p.read([2, 3])));
    expect([d.has('received'), d.has('loaded')]).toEqual([false, false]);
    p.save(1, 4, [4, 5]);
    expect(await Promise.all(loads)).toEqual([true, true]);
    expect(d.events.map(({ type }) => type)).toEqual(['received', 'loaded', 'loaded']);
    expect(d.read(range(6, 10)).equals(p.read(range(6)))).toBe(true);
    expect(d.read(range(4, 20)).equals(p.read(range(4, 2)))).toBe(true);
  });

  it('lets go of the blocks of a load before it says that their receive is closed', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(8), 12);
    const link = await p.link(kind, d.address(kind), 1);
    d.receive(1n, 8);
    p.engine.openSend(1, 8);
    p.engine.grant(1, link, 1n, 0);
    const loading = d.load(1n, range(8, 20));
    p.save(1, 0, range(5));
    await until(() => d.engine.progress(1n) === 15);
    d.engine.closeReceive(1n);
    expect(await loading).toBe(false);
    await d.event('receiveClosed');
    expect(d.events.map(({ type }) => type)).toEqual(['loaded', 'receiveClosed']);
    // Another sequence has them now; what still comes under the old ticket is not for it.
    d.fill(range(8, 20), 13);
    const others = d.read(range(8, 20));
    p.save(1, 5, range(3, 5));
    await p.event('sent');
    d.receive(2n, 8);
    p.engine.grant(1, link, 2n, 0);
    expect(await d.load(2n, range(8, 40))).toBe(true);
    expect(d.read(range(8, 20)).equals(others)).toBe(true);
  });

  it('fails a load of more blocks than come, of earlier ones, or of a ticket that is not open', async () => {
    const d = node();
    d.receive(1n, 4, 2);
    const loads = [d.load(1n, range(5), 2), d.load(1n, range(2), 5), d.load(1n, [0], 1), d.load(9n, [0])];
    expect(await Promise.all(loads)).toEqual([false, false, false, false]);
  });

  it('serves many instances at once', async () => {
    const [d, ...senders] = [node(), node(), node(), node(), node(), node()];
    await Promise.all(
      senders.map(async (p, i) => {
        p.fill(range(10), 20 + i);
        const link = await p.link(kind, d.address(kind));
        d.receive(BigInt(i), 10, 0, i * 10);
        p.engine.openSend(1, 10);
        p.engine.grant(1, link, BigInt(i), 0);
        p.save(1, 0, range(10));
        await d.event('received', (event) => event.ticket === BigInt(i));
        expect(await d.load(BigInt(i), range(10, i * 10))).toBe(true);
        expect(d.read(range(10, i * 10)).equals(p.read(range(10)))).toBe(true);
      }),
    );
  });

  it('fills no blocks but those of the load, where these are fewer than have come', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(4), 1);
    d.fill(range(64), 2);
    const link = await p.link(kind, d.address(kind));
    d.receive(1n, 4);
    p.engine.openSend(1, 4);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(4));
    await d.event('received');
    const others = range(64).filter((block) => block !== 10);
    const before = d.read(others);
    expect(await d.load(1n, [10], 1)).toBe(true);
    expect(d.read([10]).equals(p.read([1]))).toBe(true);
    expect(d.read(others).equals(before)).toBe(true);
  });

  it('finds, when it loads, that what was received has changed since', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(4), 1);
    const link = await p.link(kind, d.address(kind));
    for (const [send, blocks] of [
      [1, [0, 1]],
      [2, [2, 3]],
    ] as const) {
      // Both at the same place.
      d.receive(BigInt(send), 2);
      p.engine.openSend(send, 2);
      p.engine.grant(send, link, BigInt(send), 0);
      p.save(send, 0, blocks);
      await d.event('received', (event) => event.ticket === BigInt(send));
    }
    expect([await d.load(1n, [10, 11]), await d.load(2n, [10, 11])]).toEqual([false, true]);
    expect(d.events).toContainEqual({ type: 'corrupt', ticket: 1n });
    expect(d.read([10, 11]).equals(p.read([2, 3]))).toBe(true);
  });

  it('calls its links down with a reason where nobody listens, or somebody of another shape', async () => {
    const [p, other] = [node(), node({ layers: 4, blocks: 64, layerBlockBytes: 4096 })];
    const gone = node();
    const address = gone.address(kind);
    gone.close();
    const nobody = p.engine.connect(kind, address, 2);
    expect((await p.event('linkDown', ({ link }) => link === nobody)).reason).toMatch(/refused/);
    const misfit = p.engine.connect(kind, other.address(kind), 1);
    expect((await p.event('linkDown', ({ link }) => link === misfit)).reason).toBe(
      'the peer has refused: a KV cache of another shape',
    );
  });
}

it('sends a block of a backend layer by layer, as its keys and values are stored', needsNative, async () => {
  const cpu = openCpu('portable', 1);
  const shape = { layers: 2, blocks: 3, blockSize: 16, kvHeads: 1, headDim: 8, dtype: 'f32' } as const;
  const cache = cpu.makeKvCache(shape, true);
  const d = node({ layers: 2, blocks: 3, layerBlockBytes: cache.layerBlockBytes, tokens: 16 });
  const options = { receiveBytes: 0, tcp: null, shm: false };
  const p = new (loadNative().TransferEngine)(wholeMemory(cpu.shareKvMemory(cache), 2), options, () => {});
  try {
    d.receive(7n, 1);
    p.openSend(1, 1);
    p.grant(1, p.connect('shm', d.address('shm'), 1), 7n, 0);
    const rows = cpu.tensor(new Float32Array(16 * 8).fill(0.5), 16, 8, 'f32');
    const step = beginStep(cpu, cache, 16, { sends: Int32Array.of(1, 0, 1, 0) });
    for (const layer of [0, 1]) {
      expect(d.engine.progress(7n)).toBe(layer);
      cpu.storeKv(rows, rows, step, layer);
      await until(() => d.engine.progress(7n) === layer + 1);
    }
    await d.event('received');
    expect(await d.load(7n, [2])).toBe(true);
    expect(d.read([2]).readFloatLE(0)).toBe(0.5);
    // The next step completes nothing: what it stores is its own affair.
    cpu.storeKv(rows, rows, beginStep(cpu, cache, 16), 0);
    cpu.mark().read();
  } finally {
    p.close();
    cpu.close();
  }
});

/** 16 tokens of a sequence, in block 2 for layers of group 0, in block 1 for those of group 1. */
const IN_TWO_BLOCKS = {
  batch: {
    numSequences: 1,
    queryStarts: Int32Array.of(0, 16),
    contextLengths: Int32Array.of(16),
    blockTables: Int32Array.of(2, 1),
    maxBlocks: 1,
  },
  slotMapping: Int32Array.from({ length: 32 }, (_, i) => (i < 16 ? 2 : 1) * 16 + (i % 16)),
} as const;

/** A step of `ops` whose blocks go from `p` to the first two pieces of `d`, over shared memory, as transfer 7. */
function beginSending(p: NativeTransferEngine, d: TransferNode, ops: Ops, cache: KvCache): StepInputs {
  const groups = Uint8Array.of(0, 1);
  d.engine.openReceive(7n, 0, Float64Array.of(0, 2 * cache.layerBlockBytes), 16, groups);
  p.openSend(1, 2, groups);
  p.grant(1, p.connect('shm', d.address('shm'), 1), 7n, 0);
  return beginStep(ops, cache, 16, { ...IN_TWO_BLOCKS, sends: Int32Array.of(1, 0, 2, 2, 1) });
}

it('sends each layer once it is stored, in the blocks of its group alone', needsNative, async () => {
  const cpu = openCpu('portable', 1);
  // Of group 0 the last layer alone, in row 0; of group 1 the two before, in rows 0 and 1.
  const layerGroups = [1, 1, 0];
  const shape = { layers: 3, blocks: 3, blockSize: 16, kvHeads: 1, headDim: 8, dtype: 'f32' } as const;
  const cache = cpu.makeKvCache({ ...shape, layerGroups }, true);
  const d = node({ layers: 3, layerGroups, blocks: 3, layerBlockBytes: cache.layerBlockBytes, tokens: 16 });
  const options = { layerGroups, receiveBytes: 0, tcp: null, shm: false };
  const p = new (loadNative().TransferEngine)(wholeMemory(cpu.shareKvMemory(cache), 3), options, () => {});
  try {
    const step = beginSending(p, d, cpu, cache);
    for (const layer of [0, 1, 2]) {
      const rows = cpu.tensor(new Float32Array(16 * 8).fill(layer + 0.5), 16, 8, 'f32');
      cpu.storeKv(rows, rows, step, layer);
      await until(() => d.engine.progress(7n) === layer + 1);
    }
    await d.event('received');
    expect(await d.load(7n, [0, 1])).toBe(true);
    const firstOf = (bytes: Buffer, row: number) => bytes.readFloatLE(row * cache.layerBlockBytes);
    expect(firstOf(d.read([0]), 0)).toBe(2.5);
    expect([firstOf(d.read([1]), 0), firstOf(d.read([1]), 1)]).toEqual([0.5, 1.5]);
  } finally {
    p.close();
    cpu.close();
  }
});

it('sends layers that share a row together, once the last of them is stored', needsNative, async () => {
  const cpu = openCpu('portable', 1);
  const heads = (kvHeads: number) => ({ kvHeads, headDim: 8 });
  const shape = { layers: 4, blocks: 3, blockSize: 16, ...heads(2), dtype: 'f32' } as const;
  // Layers 0 and 2 share row 0, layer 3 has half of row 1 for itself.
  const layerHeads = [heads(1), heads(2), heads(1), heads(1)];
  const layerGroups = [0, 1, 0, 0];
  const cache = cpu.makeKvCache({ ...shape, layerGroups, layerHeads }, true);
  const groupsOfRows = [1, 0, 0];
  const d = node({
    layers: 3,
    layerGroups: groupsOfRows,
    blocks: 3,
    layerBlockBytes: cache.layerBlockBytes,
    tokens: 16,
  });
  const options = { layerGroups: groupsOfRows, receiveBytes: 0, tcp: null, shm: false };
  let isUp = false;
  const p = new (loadNative().TransferEngine)(wholeMemory(cpu.shareKvMemory(cache), 3), options, (events) => {
    isUp ||= events.some(({ type }) => type === 'linkUp');
  });
  try {
    const step = beginSending(p, d, cpu, cache);
    // What left too early would do so at once.
    await until(() => isUp);
    // Nothing leaves with layer 0: the row of layer 1 is full before its own.
    for (const [layer, progress] of [0, 1, 2, 3].entries()) {
      const width = 8 * layerHeads[layer]!.kvHeads;
      const rows = cpu.tensor(new Float32Array(16 * width).fill(layer + 0.5), 16, width, 'f32');
      cpu.storeKv(rows, rows, step, layer);
      cpu.mark().read();
      await until(() => d.engine.progress(7n) === progress);
    }
    await d.event('received');
    expect(await d.load(7n, [0, 1])).toBe(true);
    const half = cache.layerBlockBytes / 2;
    const halves = [0, 1, 2].map((index) => d.read([0]).readFloatLE(index * half));
    expect([...halves, d.read([1]).readFloatLE(0)]).toEqual([0.5, 2.5, 3.5, 1.5]);
  } finally {
    p.close();
    cpu.close();
  }
});
