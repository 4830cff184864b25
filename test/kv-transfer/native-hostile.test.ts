// What a hostile peer can send harms nobody: it is refused, with the reason, and others go on.

import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { needsNative } from '../helpers/needs.ts';
import { type RawFrame, type RawHello, RawPeer, rawFrame, rawHello } from '../helpers/raw-frames.ts';
import { KINDS, pieceOf, range, type TransferNode, transferNodes } from '../helpers/transfer-node.ts';
import { until } from '../helpers/until.ts';

const SHAPE = { layers: 2, blocks: 8, layerBlockBytes: 256 };
const node = transferNodes();

async function connect(address: string): Promise<RawPeer> {
  return opened(await RawPeer.connect(address));
}

const opened = closedAfterwards();

function pieces(count: number): Uint8Array[] {
  return range(count).map((block) => pieceOf(SHAPE, 1, 0, block));
}

/** That a real peer still gets its blocks through. */
async function expectService(d: TransferNode): Promise<void> {
  const p = node(SHAPE);
  p.fill(range(2), 77);
  for (const [i, kind] of KINDS.entries()) {
    const ticket = 1000n + BigInt(i);
    d.receive(ticket, 2, 0, 6);
    p.engine.openSend(i, 2);
    p.engine.grant(i, await p.link(kind, d.address(kind)), ticket, 0);
    p.save(i, 0, range(2));
    await d.event('received', (event) => event.ticket === ticket);
    expect(await d.load(ticket, [6, 7])).toBe(true);
    expect(d.read([6, 7]).equals(p.read([0, 1]))).toBe(true);
    d.engine.closeReceive(ticket);
  }
}

it('frames made by hand are understood', needsNative, async () => {
  const d = node(SHAPE);
  const peer = await connect(d.address('tcp'));
  d.receive(5n, 3);
  peer.write(rawHello(SHAPE));
  for (const layer of [0, 1]) peer.write(rawFrame({ ticket: 5n, layer, pieces: pieces(3) }));
  await d.event('received');
  expect(await d.load(5n, [0, 1, 2])).toBe(true);
  expect(d.read([0, 1, 2]).equals(Buffer.concat([...pieces(3), ...pieces(3)]))).toBe(true);
});

describe('a greeting', needsNative, () => {
  it.each<[string, RawHello, string]>([
    ['of another protocol', { magic: 0x20544547 }, 'not a peer of this version'],
    ['of another version', { version: 1 }, 'not a peer of this version'],
    ['with other layers', { layers: 3 }, 'a KV cache of another shape'],
    ['with a wrong checksum', { checksum: 7 }, 'a damaged greeting'],
    ['with more layers of a part', { endLayer: 3 }, 'a KV cache of another shape'],
    ['with other pieces', { pieceBytes: 2n ** 63n }, 'a KV cache of another shape'],
    ['without layers', { firstLayer: 2 }, 'a KV cache of another shape'],
    ['of layers that end before they begin', { firstLayer: 2 ** 32 - 1 }, 'a KV cache of another shape'],
    ['without shards', { shards: 0 }, 'a KV cache of another shape'],
    ['of more shards than heads', { shards: 2, endShard: 2 }, 'a KV cache of another shape'],
    ['of shards that are not there', { endShard: 2 }, 'a KV cache of another shape'],
    ['of no shard', { endShard: 0 }, 'a KV cache of another shape'],
    ['of pieces without tokens', { pieceTokens: 0 }, 'heads or blocks that are cut otherwise'],
    ['of pieces of half a block', { pieceTokens: 2 ** 31 }, 'heads or blocks that are cut otherwise'],
    ['of blocks without tokens', { blockTokens: 0 }, 'heads or blocks that are cut otherwise'],
  ])('%s is refused', async (_, wrong, reason) => {
    const d = node(SHAPE);
    const peer = await connect(d.address('tcp'));
    peer.write(rawHello(SHAPE, wrong));
    await until(() => peer.hasEnded);
    expect(peer.said).toBe(reason);
    await expectService(d);
  });

  it('that never comes holds up nobody, nor do many of them', async () => {
    const d = node(SHAPE);
    const silent = await Promise.all(range(40).map(() => connect(d.address('tcp'))));
    for (const peer of silent) peer.write(rawHello(SHAPE).subarray(0, 10));
    await expectService(d);
  });
});

describe('a frame', needsNative, () => {
  it.each<[string, Partial<RawFrame>, string]>([
    ['of another magic', { magic: 1n }, 'not a frame'],
    ['of a layer that is not there', { layer: 2 }, 'not a frame'],
    ['of a shard that is not there', { shard: 1 }, 'not a frame'],
    ['without pieces', { count: 0 }, 'a frame of too many pieces'],
    ['of too many pieces', { count: 129 }, 'a frame of too many pieces'],
    ['of billions of pieces', { count: 2 ** 32 - 1 }, 'a frame of too many pieces'],
    ['with a wrong checksum', { checksum: 7 }, 'a damaged frame'],
    ['before its area', { firstBlock: 1 }, 'a frame outside of its transfer'],
    ['behind its area', { firstBlock: 4 }, 'a frame outside of its transfer'],
    ['around the end of numbers', { firstBlock: 2 ** 32 - 1 }, 'a frame outside of its transfer'],
  ])('%s is refused', async (_, wrong, reason) => {
    const d = node(SHAPE);
    d.receive(5n, 4, 2);
    const peer = await connect(d.address('tcp'));
    peer.write(rawHello(SHAPE));
    peer.write(rawFrame({ ticket: 5n, firstBlock: 2, pieces: pieces(3), ...wrong }));
    await until(() => peer.hasEnded);
    expect([peer.said, d.engine.progress(5n)]).toEqual([reason, 0]);
    await expectService(d);
  });

  it('whose transfer ends in its middle writes nothing more where another one has come meanwhile', async () => {
    const d = node(SHAPE);
    const [slow, other] = [await connect(d.address('tcp')), await connect(d.address('tcp'))];
    for (const peer of [slow, other]) peer.write(rawHello(SHAPE));
    const frame = rawFrame({ ticket: 5n, pieces: pieces(2) });
    const middle = frame.length - SHAPE.layerBlockBytes / 2;
    d.receive(5n, 2);
    slow.write(frame.subarray(0, middle));
    await until(() => d.engine.progress(5n) === 1);
    d.engine.closeReceive(5n);
    await d.event('receiveClosed');
    const theirs = [2, 3].map((block) => pieceOf(SHAPE, 2, 0, block));
    d.receive(6n, 2);
    for (const layer of [0, 1]) other.write(rawFrame({ ticket: 6n, layer, pieces: theirs }));
    await d.event('received');
    d.receive(7n, 1, 0, 7);
    slow.write(Buffer.concat([frame.subarray(middle), rawFrame({ ticket: 7n, pieces: pieces(1) })]));
    await until(() => d.engine.progress(7n) === 1);
    expect(await d.load(6n, [0, 1])).toBe(true);
    expect(d.read([0, 1]).equals(Buffer.concat([...theirs, ...theirs]))).toBe(true);
  });

  it('is read on where another transfer ends in its middle', async () => {
    const d = node(SHAPE);
    d.receive(5n, 2);
    d.receive(6n, 2, 0, 2);
    const peer = await connect(d.address('tcp'));
    const frame = rawFrame({ ticket: 6n, pieces: pieces(2) });
    const middle = frame.length - SHAPE.layerBlockBytes / 2;
    peer.write(Buffer.concat([rawHello(SHAPE), frame.subarray(0, middle)]));
    await until(() => d.engine.progress(6n) === 1);
    d.engine.closeReceive(5n);
    await d.event('receiveClosed');
    peer.write(frame.subarray(middle));
    await until(() => d.engine.progress(6n) === 2);
  });

  it('of a layer that a block does not hold is refused', async () => {
    const d = node({ ...SHAPE, layerGroups: [0, 1] });
    d.engine.openReceive(5n, 0, Float64Array.of(0, 256), 1, Uint8Array.of(0, 1));
    const peer = await connect(d.address('tcp'));
    peer.write(rawHello(SHAPE));
    peer.write(rawFrame({ ticket: 5n, layer: 1, firstBlock: 1, pieces: pieces(1) }));
    await until(() => d.engine.progress(5n) === 1);
    peer.write(rawFrame({ ticket: 5n, layer: 0, firstBlock: 1, pieces: pieces(1) }));
    await until(() => peer.hasEnded);
    expect([peer.said, d.engine.progress(5n)]).toEqual(['a frame outside of its transfer', 1]);
  });

  it('finds a transfer of a block or more: without one, the second frame would be looked up outside of it', async () => {
    const d = node(SHAPE);
    expect(() => d.engine.openReceive(5n, 0, new Float64Array(0), 1)).toThrow('places of at least one block');
    for (let times = 0; times < 2; times++) {
      const peer = await connect(d.address('tcp'));
      peer.write(rawHello(SHAPE));
      // Thrown away: no transfer is open under this ticket.
      peer.write(rawFrame({ ticket: 5n, pieces: pieces(1) }));
    }
    await expectService(d);
  });

  it('of a wrong piece counts for nothing, and is told of', async () => {
    const d = node(SHAPE);
    d.receive(5n, 3);
    const peer = await connect(d.address('tcp'));
    peer.write(rawHello(SHAPE));
    for (let i = 0; i < 10; i++) {
      peer.write(rawFrame({ ticket: 5n, pieces: pieces(3), pieceChecksum: 1 }));
    }
    await until(() => d.events.length === 10);
    expect([d.events.every(({ type }) => type === 'corrupt'), d.engine.progress(5n)]).toEqual([true, 0]);
    peer.write(rawFrame({ ticket: 5n, pieces: pieces(3) }));
    await until(() => d.engine.progress(5n) === 3);
  });

  it('cannot change a piece that has come', async () => {
    const d = node(SHAPE);
    d.receive(5n, 3);
    const peer = await connect(d.address('tcp'));
    peer.write(rawHello(SHAPE));
    for (const layer of [0, 1]) peer.write(rawFrame({ ticket: 5n, layer, pieces: pieces(3) }));
    await d.event('received');
    const other = range(3).map((block) => pieceOf(SHAPE, 2, 0, block));
    for (const pieceChecksum of [undefined, 3]) {
      const frame = { ticket: 5n, pieces: other };
      peer.write(rawFrame(pieceChecksum === undefined ? frame : { ...frame, pieceChecksum }));
    }
    d.receive(6n, 1, 0, 4);
    peer.write(rawFrame({ ticket: 6n, pieces: pieces(1) }));
    await until(() => d.engine.progress(6n) === 1);
    expect([await d.load(5n, [0, 1, 2]), d.has('corrupt')]).toEqual([true, false]);
    expect(d.read([0, 1, 2]).equals(Buffer.concat([...pieces(3), ...pieces(3)]))).toBe(true);
  });
});

it(
  'any bytes at all end the connection or wait for more, and never a transfer of others',
  needsNative,
  async () => {
    const d = node(SHAPE);
    d.receive(5n, 4);
    const byte = fc.oneof(fc.constant(0), fc.nat(255));
    await fc.assert(
      fc.asyncProperty(fc.array(byte, { maxLength: 200 }), fc.boolean(), async (bytes, isGreeted) => {
        const peer = await RawPeer.connect(d.address('tcp'));
        if (isGreeted) peer.write(rawHello(SHAPE));
        peer.write(Uint8Array.from(bytes));
        peer.close();
      }),
      { numRuns: 200 },
    );
    for (let i = 0; i < 5; i++) {
      const peer = await connect(d.address('tcp'));
      peer.write(Buffer.concat([rawHello(SHAPE), randomBytes(1 << 20)]));
      await until(() => peer.hasEnded);
    }
    expect([d.engine.progress(5n), d.events]).toEqual([0, []]);
    await expectService(d);
  },
);

/** More than an engine has at once, a hundred at a time. */
async function connectMany(d: TransferNode, count: number): Promise<RawPeer[]> {
  const open: RawPeer[] = [];
  while (open.length < count) {
    const some = range(Math.min(100, count - open.length));
    open.push(...(await Promise.all(some.map(() => connect(d.address('tcp'))))));
  }
  return open;
}

it('connections that say nothing make room for others where there are too many', needsNative, async () => {
  const d = node(SHAPE);
  d.receive(5n, 1);
  const peer = await connect(d.address('tcp'));
  peer.write(Buffer.concat([rawHello(SHAPE), rawFrame({ ticket: 5n, pieces: pieces(1) })]));
  await until(() => d.engine.progress(5n) === 1);
  const open = await connectMany(d, 1030);
  await until(() => open.filter(({ hasEnded }) => hasEnded).length === 1030 + 1 - 1024);
  await expectService(d);
  expect(peer.hasEnded).toBe(false);
  for (const silent of open) silent.close();
  await until(() => open.every(({ hasEnded }) => hasEnded));
  await expectService(d);
});

it('a connection is refused where all others are in use', needsNative, async () => {
  const shape = { layers: 1, blocks: 1024, layerBlockBytes: 16 };
  const d = node(shape);
  const open = await connectMany(d, shape.blocks);
  d.receive(5n, shape.blocks);
  for (const [firstBlock, peer] of open.entries()) {
    const piece = pieceOf(shape, 1, 0, firstBlock);
    peer.write(Buffer.concat([rawHello(shape), rawFrame({ ticket: 5n, firstBlock, pieces: [piece] })]));
  }
  await d.event('received');
  const late = await connect(d.address('tcp'));
  await until(() => late.hasEnded);
  expect(open.filter(({ hasEnded }) => hasEnded)).toEqual([]);
});

describe('a call with an array of another type or length', needsNative, () => {
  it('is refused before the array is read', () => {
    const { engine } = node(SHAPE);
    // What the compiler would refuse.
    const wrong = (array: unknown) => array as never;
    const groups = /groups of layers of a transfer must be in a Uint8Array/;
    expect(() => engine.openSend(1, 2, wrong(new Int32Array(2)))).toThrow(groups);
    expect(() => engine.openSend(1, 2, new Uint8Array(3))).toThrow(/a group of layers for each block/);
    for (const offsets of [new Float32Array(2), [0, 256], null]) {
      expect(() => engine.openReceive(5n, 0, wrong(offsets))).toThrow(/offsets must be in a Float64Array/);
    }
    expect(() => engine.openReceive(5n, 0, Float64Array.of(0), 1, wrong(new Int8Array(1)))).toThrow(groups);
    expect(() => engine.load(1, 5n, 0, wrong(new Uint32Array(2)))).toThrow(/blocks must be in an Int32Array/);
    expect(() => engine.load(1, 5n, 0, wrong(undefined))).toThrow(/blocks must be in an Int32Array/);
  });

  it('is refused by KV memory and by the checksum', () => {
    const { KvMemory, crc32c } = loadNative();
    const memory = new KvMemory(1, 1, 64);
    const wrong = (array: unknown) => array as never;
    expect(() => memory.onKvStep(wrong(new Uint8Array(4)))).toThrow(/must be in an Int32Array/);
    expect(() => memory.write(0, 0, wrong(new Float64Array(8)))).toThrow(/bytes must be in a Uint8Array/);
    expect(() => memory.write(0, 0, new Uint8Array(63))).toThrow(/the bytes of one layer block/);
    expect(() => crc32c(wrong(new Float64Array(8)))).toThrow(/bytes must be in a Uint8Array/);
  });
});
