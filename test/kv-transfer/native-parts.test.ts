// Instances whose KV memory is in other parts, and whose blocks are of another size, exchange blocks through the native threads: what
// comes is what the consumer would have computed itself.

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { ByteRelay } from '../helpers/byte-relay.ts';
import { needsCudaEmulator, needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { NCCL_EMULATOR } from '../helpers/emulator-files.ts';
import { needsNative } from '../helpers/needs.ts';
import { cutOf, type PartedModel, PartedNode, type PartedShape } from '../helpers/parted-node.ts';
import { KINDS, type Kind, range } from '../helpers/transfer-node.ts';
import { until } from '../helpers/until.ts';

const nodes: PartedNode[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const node of nodes.splice(0)) node.close();
});

function node(model: PartedModel, shape: PartedShape): PartedNode {
  const made = new PartedNode(model, shape);
  nodes.push(made);
  return made;
}

/** Keys and values of 16 tokens, as a processor has them; those of one token and their scales, as a GPU has int8. */
const TILED: PartedModel = { layers: 4, heads: 4, tileTokens: 16, tileBytes: [96, 128] };
const SCALED: PartedModel = { layers: 2, heads: 4, tileTokens: 1, tileBytes: [16, 16, 4, 4] };
const LATENT: PartedModel = { layers: 3, heads: 1, tileTokens: 16, tileBytes: [160] };
const ALONE: PartedShape = { degree: 1, stages: 1, blockTokens: 16, blocks: 16 };

interface Asked {
  readonly kind: Kind;
  readonly numTokens: number;
  /** Blocks that the consumer has already. */
  readonly first: number;
  /** Whether all have come before they are loaded. */
  readonly isLate: boolean;
}

/** One transfer; the tiles that are wrong at the consumer afterwards. */
async function transfer(
  p: PartedNode,
  d: PartedNode,
  { kind, numTokens, first, isLate }: Asked,
): Promise<number> {
  const cut = cutOf(p.model, p.shape, d.shape);
  const link = p.engine.connect(kind, d.engine.endpoints[kind]!, 2, cut);
  const begin = (first * d.shape.blockTokens) / cut.tokens;
  d.receive(1n, numTokens, first);
  p.engine.openSend(1, p.numBlocks(numTokens));
  p.engine.grant(1, link, 1n, begin, Math.ceil(numTokens / cut.tokens));
  // Numbers of blocks that say nothing of their order.
  const blocksOf = ({ shape }: PartedNode, count: number) =>
    range(count).map((i) => (i * 5 + 3) % shape.blocks);
  const theirs = blocksOf(p, p.numBlocks(numTokens));
  const own = blocksOf(d, d.numBlocks(numTokens)).slice(first);
  const loading = isLate ? null : d.load(1, 1n, first, own);
  const half = Math.floor(theirs.length / 2);
  p.compute(1, 7, theirs.slice(0, half));
  p.compute(1, 7, theirs.slice(half), half);
  await d.event('received');
  expect(await (loading ?? d.load(1, 1n, first, own))).toBe(true);
  await p.event('sent');
  const pieces = p.model.layers * cut.shards * (Math.ceil(numTokens / cut.tokens) - begin);
  expect([d.engine.progress(1n), d.engine.bytesReceived]).toEqual([pieces, p.engine.bytesSent]);
  return d.wrongTiles(7, numTokens, own, first);
}

const DEGREES = [1, 2, 4];
const PAIRS = DEGREES.flatMap((of) => DEGREES.map((to) => [of, to] as const));

describe.each(KINDS)('over %s', (kind) => {
  it.each(PAIRS)('a producer of degree %i serves a consumer of degree %i', needsNative, async (of, to) => {
    for (const model of [TILED, SCALED, LATENT]) {
      const [p, d] = [node(model, { ...ALONE, degree: of }), node(model, { ...ALONE, degree: to })];
      expect(await transfer(p, d, { kind, numTokens: 90, first: 1, isLate: false })).toBe(0);
    }
  });

  it.each([
    [16, 64],
    [64, 16],
    [32, 64],
  ])('blocks of %i tokens become blocks of %i', needsNative, async (of, to) => {
    for (const isLate of [false, true]) {
      const [p, d] = [node(TILED, { ...ALONE, blockTokens: of }), node(TILED, { ...ALONE, blockTokens: to })];
      expect(await transfer(p, d, { kind, numTokens: 150, first: 1, isLate })).toBe(0);
    }
  });

  it.each([
    [2, 1],
    [1, 2],
    [4, 2],
  ])('a producer of %i stages serves a consumer of %i', needsNative, async (of, to) => {
    const [p, d] = [node(TILED, { ...ALONE, stages: of }), node(TILED, { ...ALONE, stages: to, degree: 2 })];
    expect(await transfer(p, d, { kind, numTokens: 90, first: 0, isLate: true })).toBe(0);
  });
});

/** Of an emulated GPU, with a receive memory of which it has a part. */
const ON_GPU: PartedShape = { ...ALONE, gpu: NCCL_EMULATOR, deviceBlocks: 4 };

const OVER_GPUS = [...KINDS, 'cuda-ipc', 'nccl'] as const;

describe.each(OVER_GPUS)('from GPU to GPU over %s', (kind) => {
  it.each<[string, Partial<PartedShape>, Partial<PartedShape>]>([
    ['2 ranks serve 1', { degree: 2 }, {}],
    ['1 rank serves 4', {}, { degree: 4 }],
    ['small blocks become large', {}, { blockTokens: 64 }],
    ['large blocks become small', { blockTokens: 64 }, {}],
    ['1 stage serves 2', {}, { stages: 2 }],
    ['all of it', { degree: 4, blockTokens: 32 }, { stages: 2, degree: 2, blockTokens: 64 }],
  ])('%s', needsCudaEmulator, async (_, ofP, ofD) => {
    for (const [index, model] of [TILED, SCALED, LATENT].entries()) {
      // Each model is loaded early by some kinds, and late by others.
      const isLate = (index + OVER_GPUS.indexOf(kind)) % 2 === 1;
      const [p, d] = [node(model, { ...ON_GPU, ...ofP }), node(model, { ...ON_GPU, ...ofD })];
      expect(await transfer(p, d, { kind, numTokens: 130, first: 1, isLate })).toBe(0);
      expect([p.engine.bytesSentOver(kind), p.count('sent')]).toEqual([p.engine.bytesSent, 1]);
      for (const one of nodes.splice(0)) one.close();
    }
  });
});

describe('ranks on GPUs of their own', needsCudaEmulators, () => {
  beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '4'));

  /** Of which a rank has blocks of other sizes than one of the other. */
  const SIZES = [
    { model: SCALED, ofP: 16, ofD: 32 },
    { model: LATENT, ofP: 32, ofD: 16 },
  ];
  const gpus = (degree: number, blockTokens: number) => ({ ...ON_GPU, degree, blockTokens, hasGpus: true });

  describe.each(OVER_GPUS)('over %s', (kind) => {
    it.each(PAIRS.filter(([of, to]) => of * to > 1))('%i serve %i', async (of, to) => {
      for (const { model, ofP, ofD } of SIZES) {
        const [p, d] = [node(model, gpus(of, ofP)), node(model, gpus(to, ofD))];
        expect(await transfer(p, d, { kind, numTokens: 130, first: 1, isLate: of > to })).toBe(0);
        expect([p.engine.bytesSentOver(kind), p.count('sent')]).toEqual([p.engine.bytesSent, 1]);
      }
    });
  });

  it('have a link over cuda-ipc only where each reads the memory of those that send to it', async () => {
    vi.stubEnv('SVC_EMULATED_STRANGER', '1');
    const d = node(SCALED, gpus(2, 16));
    const connect = (p: PartedNode) =>
      p.engine.connect('cuda-ipc', d.engine.endpoints['cuda-ipc']!, 1, cutOf(SCALED, p.shape, d.shape));
    for (const degree of [1, 2]) {
      const p = node(SCALED, gpus(degree, 16));
      connect(p);
      expect(await p.event('linkDown')).toMatchObject({
        reason: expect.stringContaining('could not read the memory of another process'),
      });
    }
    vi.unstubAllEnvs();
    const p = node(SCALED, ON_GPU);
    connect(p);
    await p.event('linkUp');
  });

  it.each([
    ['cuda-ipc', 'second', 2],
    ['nccl', 'first', 2],
    ['nccl', 'second', 3],
  ] as const)('what changes on its way over %s to the %s of two is noticed there', async (kind, _, copy) => {
    const model = { ...LATENT, layers: 1 };
    const [p, d] = [node(model, gpus(1, 16)), node(model, gpus(2, 16))];
    const link = p.engine.connect(kind, d.engine.endpoints[kind]!, 1);
    await p.event('linkUp');
    // There is one frame, which the sender copies first where it goes over NCCL.
    vi.stubEnv('SVC_EMULATED_FLIPS', String(copy));
    d.receive(1n, 64);
    p.engine.openSend(1, 4);
    p.engine.grant(1, link, 1n, 0);
    p.compute(1, 7, range(4));
    expect(await d.event('corrupt')).toMatchObject({ ticket: 1n });
    await p.event('sent');
    await until(() => d.engine.progress(1n) === 3);
    vi.unstubAllEnvs();
    p.engine.grant(1, link, 1n, 0);
    await d.event('received');
    expect(await d.load(1, 1n, 0, range(4))).toBe(true);
    expect(d.wrongTiles(7, 64, range(4))).toBe(0);
  });
});

it(
  'a piece that changes on its way from GPU to GPU is noticed, and can be sent again',
  needsCudaEmulator,
  async () => {
    const [p, d] = [node(SCALED, { ...ON_GPU, degree: 2 }), node(SCALED, { ...ON_GPU, blockTokens: 32 })];
    const cut = cutOf(SCALED, p.shape, d.shape);
    const link = p.engine.connect('cuda-ipc', d.engine.endpoints['cuda-ipc']!, 1, cut);
    await p.event('linkUp');
    vi.stubEnv('SVC_EMULATED_FLIPS', '3');
    d.receive(1n, 128);
    p.engine.openSend(1, 8);
    p.engine.grant(1, link, 1n, 0, 8);
    p.compute(1, 7, range(8));
    expect(await d.event('corrupt')).toMatchObject({ ticket: 1n });
    await p.event('sent');
    vi.unstubAllEnvs();
    p.engine.grant(1, link, 1n, 0, 8);
    await d.event('received');
    expect(await d.load(1, 1n, 0, range(4))).toBe(true);
    expect(d.wrongTiles(7, 128, range(4))).toBe(0);
  },
);

describe.each(['cuda-ipc', 'nccl'] as const)('over %s', (kind) => {
  it('keys and values that GPUs cannot cut have no link, which says why', needsCudaEmulator, async () => {
    const odd: PartedModel = { layers: 1, heads: 2, tileTokens: 1, tileBytes: [2] };
    const [p, d] = [node(odd, ON_GPU), node(odd, ON_GPU)];
    p.engine.connect(kind, d.engine.endpoints[kind]!, 1, { shards: 2, tokens: 4 });
    expect(await p.event('linkDown')).toMatchObject({
      reason: 'the peer has refused: keys and values that GPUs cannot cut: they copy multiples of 16 bytes',
    });
  });
});

describe('any two instances of one model exchange any part of any prompt', () => {
  const shapes = { blockTokens: fc.constantFrom(16, 32, 64), blocks: fc.constantFrom(12, 17) };
  const cuts = { degree: fc.constantFrom(...DEGREES), stages: fc.constantFrom(1, 2) };
  const onGpus = { gpu: fc.constant(NCCL_EMULATOR), hasGpus: fc.boolean(), deviceBlocks: fc.nat(12) };

  async function expectExchange(
    shape: fc.Arbitrary<PartedShape>,
    kinds: readonly Kind[],
    numRuns: number,
  ): Promise<void> {
    const about = fc.record({
      model: fc.constantFrom(TILED, SCALED, LATENT),
      p: shape,
      d: shape,
      kind: fc.constantFrom(...kinds),
      numTokens: fc.integer({ min: 1, max: 180 }),
      isLate: fc.boolean(),
      share: fc.double({ min: 0, max: 0.99, noNaN: true }),
    });
    await fc.assert(
      fc.asyncProperty(about, async ({ model, p, d, kind, numTokens, isLate, share }) => {
        const [from, to] = [node(model, p), node(model, d)];
        const first = Math.floor(to.numBlocks(numTokens) * share);
        expect(await transfer(from, to, { kind, numTokens, first, isLate })).toBe(0);
        for (const one of nodes.splice(0)) one.close();
      }),
      { numRuns },
    );
  }

  it('of processors', needsNative, () => expectExchange(fc.record({ ...shapes, ...cuts }), KINDS, 60));

  it('of GPUs', needsCudaEmulators, async () => {
    vi.stubEnv('SVC_EMULATED_GPUS', '4');
    await expectExchange(fc.record({ ...shapes, ...cuts, ...onGpus }), OVER_GPUS, 8);
  });
});

describe('a transfer engine', needsNative, () => {
  const layers = { first: 0, end: 2 };
  const engineOf = (...heads: (readonly [number, number])[]) => {
    const { KvMemory, TransferEngine } = loadNative();
    const layerBlock = { heads: 2, tokens: 16, tileTokens: 16, tileBytes: [32] };
    const parts = heads.map(([first, end]) => {
      return { token: new KvMemory(2, 4, layerBlock).share(), layers, heads: { first, end } };
    });
    return new TransferEngine(parts, { receiveBytes: 0, tcp: null, shm: false }, () => {});
  };

  it('takes parts that make up one memory, also where several hold the same', () => {
    for (const heads of [
      [[0, 2]],
      [
        [0, 2],
        [2, 4],
      ],
      [
        [0, 2],
        [0, 2],
      ],
    ] as const)
      engineOf(...heads).close();
  });

  it.each([
    ['no part', [], 'there is no KV memory'],
    ['a gap', [[2, 4]], 'leave out or repeat a head of a layer'],
    [
      'heads twice',
      [
        [0, 2],
        [1, 3],
      ],
      'leave out or repeat a head of a layer',
    ],
    ['other heads than the memory has', [[0, 4]], 'other layers or heads than it should'],
  ] as const)('refuses %s', (_, heads, reason) => {
    expect(() => engineOf(...heads)).toThrow(reason);
  });

  it('refuses a cut that its blocks do not have', () => {
    const engine = engineOf([0, 2], [2, 4]);
    for (const cut of [
      { shards: 1, tokens: 16 },
      { shards: 3, tokens: 16 },
      { shards: 2, tokens: 8 },
      { shards: 0, tokens: 0 },
    ]) {
      expect(() => engine.connect('tcp', '127.0.0.1:1', 1, cut)).toThrow('cut otherwise');
    }
    engine.close();
  });
});

it('finds, when it loads, that a piece has changed since it came', needsNative, async () => {
  const [p, d] = [node(TILED, { ...ALONE, degree: 2 }), node(TILED, ALONE)];
  const link = p.engine.connect('tcp', d.engine.endpoints.tcp!, 2, cutOf(TILED, p.shape, d.shape));
  for (const send of [1, 2]) {
    // Both at the same place.
    d.receive(BigInt(send), 32);
    p.engine.openSend(send, 2);
    p.engine.grant(send, link, BigInt(send), 0, 2);
    p.compute(send, send, [2 * send, 2 * send + 1]);
    await d.event('received', (event) => event.type === 'received' && event.ticket === BigInt(send));
  }
  expect([await d.load(1, 1n, 0, [10, 11]), await d.load(2, 2n, 0, [10, 11])]).toEqual([false, true]);
  expect(d.events).toContainEqual({ type: 'corrupt', ticket: 1n });
  expect(d.wrongTiles(2, 32, [10, 11])).toBe(0);
});

it('sends everything again under another grant, wherever the one before it was', needsNative, async () => {
  // More than sockets hold: the first link gets stuck among the runs of the second shard.
  const large: PartedModel = { layers: 1, heads: 4, tileTokens: 16, tileBytes: [65_536] };
  const [p, d] = [
    node(large, { ...ALONE, blockTokens: 64, blocks: 32 }),
    node(large, { ...ALONE, degree: 4, blocks: 128 }),
  ];
  const [cut, numTokens, shardBytes] = [cutOf(large, p.shape, d.shape), 2048, 128 * 65_536];
  const relay = await ByteRelay.start(d.engine.endpoints.tcp!);
  relay.change = (bytes, offset) => {
    if (offset > 1.3 * shardBytes) relay.pause();
    return bytes;
  };
  const stuck = p.engine.connect('tcp', relay.address, 1, cut);
  p.engine.openSend(1, 32);
  p.compute(1, 7, range(32));
  d.receive(1n, numTokens);
  p.engine.grant(1, stuck, 1n, 0, 128);
  await until(() => d.engine.progress(1n) > 128);
  relay.reset();
  await p.event('linkDown');
  relay.close();
  d.engine.closeReceive(1n);
  await d.event('receiveClosed');
  d.receive(2n, numTokens);
  p.engine.grant(1, p.engine.connect('tcp', d.engine.endpoints.tcp!, 1, cut), 2n, 0, 128);
  await d.event('received');
  expect(await d.load(1, 2n, 0, range(128))).toBe(true);
  expect(d.wrongTiles(7, numTokens, range(128))).toBe(0);
});

it('a ticket is for one cut: pieces of another end the link', needsNative, async () => {
  const [one, two] = [node(TILED, ALONE), node(TILED, { ...ALONE, degree: 2 })];
  const d = node(TILED, ALONE);
  d.receive(1n, 64);
  const first = one.engine.connect('tcp', d.engine.endpoints.tcp!, 1, { shards: 1, tokens: 16 });
  one.engine.openSend(1, 2);
  one.engine.grant(1, first, 1n, 0, 2);
  one.compute(1, 7, [0, 1]);
  await until(() => d.engine.progress(1n) === 8);
  two.engine.connect('tcp', d.engine.endpoints.tcp!, 1, { shards: 2, tokens: 16 });
  two.engine.openSend(1, 4);
  two.engine.grant(1, 1, 1n, 0, 4);
  two.compute(1, 7, [0, 1, 2, 3]);
  expect(await two.event('linkDown')).toMatchObject({
    reason: 'the peer has refused: a transfer that was cut otherwise',
  });
  expect(d.engine.progress(1n)).toBe(8);
});
