import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { ALONE } from '../../src/ops/ranks.ts';
import {
  type CacheMemory,
  cacheMemory,
  chooseNumBlocks,
  hostMemory,
  kvBlockBytes,
  longestFitting,
  numStateBlocks,
  overcommitNotice,
  receiveRoom,
  stateBytes,
} from '../../src/runner/kv-budget.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';

const GIB = 2 ** 30;
const SHAPE = { layers: 2, blocks: 1, blockSize: 16, kvHeads: 2, headDim: 8, dtype: 'f32' } as const;
const BLOCK_BYTES = 2 * 2 * 16 * 2 * 8 * 4;
const CONFIG = {
  kvCacheMemoryBytes: null,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 32,
  blockSize: 16,
  dataParallelSize: 1,
};
const DESIGN = { shape: SHAPE, windows: [null] };
const MEMORY = { kvCacheMemoryBytes: null, gpuMemoryUtilization: 0.5, share: null };
const NOTHING = { draftBytes: 0, weightBytes: 0, activationBytes: 0, encoderBytes: 0 };
const room = (bytes: number, numRanks = 1) => ({ bytes, numRanks, stage: null, account: '' });

describe('the KV budget', () => {
  it('counts keys and values of all layers in a block', () => {
    expect(kvBlockBytes(SHAPE)).toBe(BLOCK_BYTES);
  });

  it('counts keys alone where they are the values', () => {
    expect(kvBlockBytes({ ...SHAPE, keysAreValues: true })).toBe(BLOCK_BYTES / 2);
  });

  it.each([
    ['bf16', 16],
    ['fp8', 8],
    ['int8', 12],
  ] as const)('counts what %s takes for a head of 8 numbers: %i bytes', (dtype, bytes) => {
    expect(kvBlockBytes({ ...SHAPE, dtype })).toBe(2 * 2 * 16 * 2 * bytes);
  });

  it('refuses more blocks than a cache can have, naming what to lower', () => {
    const config = { ...CONFIG, kvCacheMemoryBytes: 100 * 2 ** 40, dataParallelSize: 2 };
    const most = 2 ** 28 * BLOCK_BYTES;
    expect(chooseNumBlocks(config, DESIGN, 64, room(most))).toBe(2 ** 28);
    const choose = () => chooseNumBlocks(config, DESIGN, 64, room(most + BLOCK_BYTES));
    expect(choose).toThrow(ConfigError);
    expect(choose).toThrow(
      `the KV cache would have 268435457 blocks, more than 268435456: lower --kv-cache-memory-bytes to at most ${2 * most}`,
    );
  });

  it('has that share which is asked for of what is free of the host beside everything else', () => {
    const host = { freeMemory: () => 11 * GIB, deviceMemory: () => null, ranks: ALONE };
    expect(cacheMemory(MEMORY, host)).toEqual({
      ...room(5 * GIB),
      account:
        '. Of the 11.0 GiB of memory that are free, 1.0 GiB are for heaps, activations and what requests leave behind, and ' +
        '--gpu-memory-utilization 0.5 is of the rest',
    });
    expect(cacheMemory(MEMORY, host, { ...NOTHING, draftBytes: 2 * GIB }).bytes).toBe(4 * GIB);
    const seeing = { ...NOTHING, encoderBytes: 2 * GIB };
    expect(cacheMemory(MEMORY, host, seeing)).toEqual({
      ...room(4 * GIB),
      account: expect.stringContaining(
        '3.0 GiB are for heaps, activations, the largest image and what requests leave behind',
      ),
    });
    expect(cacheMemory(MEMORY, { ...host, ranks: { rank: 0, size: 2 } }, seeing).bytes).toBe(3 * GIB);
    expect(cacheMemory({ ...MEMORY, kvCacheMemoryBytes: 7 }, host)).toEqual(room(7));
    expect(cacheMemory(MEMORY, { ...host, ranks: { rank: 1, size: 4 } })).toMatchObject({
      bytes: 5 * GIB,
      numRanks: 4,
    });
  });

  it('leaves half of the host to everything else where little is free', () => {
    expect(hostMemory(GIB, 0.8).bytes).toBe(0.4 * GIB);
    expect(hostMemory(2 * GIB, 0.8).bytes).toBe(0.8 * GIB);
  });

  it.each([
    ['beside what blocks of others take', 'kv_consumer', 2, 0.5 * (10 - 2 - 1)],
    ['no less than those', 'kv_both', 200, 0.5 * 5],
    ['all where none come', 'kv_producer', 2, 0.5 * 10],
  ] as const)('has of the host, %s', (_, role, bufferGib, expectedGib) => {
    const host = { freeMemory: () => 11 * GIB, deviceMemory: () => null, ranks: ALONE };
    const kvTransfer = { ...kvTransferConfig({ role }), bufferBytes: bufferGib * GIB, poolBytes: GIB };
    expect(cacheMemory({ ...MEMORY, kvTransfer }, host).bytes).toBe(expectedGib * GIB);
  });

  it('has room for a pool of the usual size where nobody says how large it is', () => {
    const host = { freeMemory: () => 101 * GIB, deviceMemory: () => null, ranks: ALONE };
    const kvTransfer = { ...kvTransferConfig({}), bufferBytes: 2 * GIB, poolBytes: null };
    expect(cacheMemory({ ...MEMORY, kvTransfer }, host).bytes).toBe(0.5 * (100 - 2 - 32) * GIB);
  });

  it('leaves to blocks that come what is free beside caches, the largest image and all else', () => {
    expect(receiveRoom(10 * GIB, 4 * GIB, 2 * GIB)).toBe(3 * GIB);
    expect(receiveRoom(GIB, 0, 0)).toBe(0.5 * GIB);
    expect(receiveRoom(10 * GIB, 10 * GIB, 0)).toBe(0);
  });

  it('tells where more is asked for of the host than is free, by all engines together', () => {
    const host = { freeMemory: () => 1000, deviceMemory: () => null, ranks: ALONE };
    const asked = (kvCacheMemoryBytes: number | null, dataParallelSize = 1) =>
      overcommitNotice({ kvCacheMemoryBytes, dataParallelSize }, host);
    expect([asked(null), asked(1000)]).toEqual([null, null]);
    expect(asked(1001)).toMatch(
      /^--kv-cache-memory-bytes 1001 .* is more than the 1000 B that are free: .*lower it$/,
    );
    expect(asked(501, 2)).toMatch(/^--kv-cache-memory-bytes 1002 /);
  });

  it('has, as one of several engines, its share of the host less its own weights, whatever others have loaded', () => {
    const host = { freeMemory: () => 17, deviceMemory: () => null, ranks: ALONE };
    const config = { ...MEMORY, share: { rank: 1, memoryBytes: 11 * GIB } };
    const taken = { ...NOTHING, weightBytes: 4 * GIB };
    expect(cacheMemory(config, host, { ...taken, draftBytes: GIB }).bytes).toBe(0.5 * 5 * GIB);
    const ofTwo = { ...host, ranks: { rank: 1, size: 2 } };
    expect(cacheMemory(config, ofTwo, taken)).toMatchObject({ bytes: 0.5 * 2 * GIB, numRanks: 2 });
  });

  it.each([
    ['what its share of all leaves', { share: 0.5, taken: 300, free: 700 }, 1000 * 0.5 - 300 - 50],
    ['nothing where that is taken', { share: 0.3, taken: 300, free: 700 }, -50],
    ['no more than is free', { share: 0.9, taken: 300, free: 100 }, 100 - 50],
  ])('has of a device %s', (_, { share, taken, free }, expected) => {
    const device = { totalBytes: 1000, takenBytes: taken, reservedBytes: 50 };
    const ops = { freeMemory: () => free, deviceMemory: () => device, ranks: ALONE };
    const config = { ...MEMORY, gpuMemoryUtilization: share };
    expect(cacheMemory(config, ops).bytes).toBe(expected);
  });

  it.each([
    ['cuda-ipc', 'kv_consumer', 40],
    ['auto', 'kv_both', 40],
    ['auto', 'kv_producer', 0],
    ['tcp', 'kv_consumer', 0],
  ] as const)('leaves over %s as %s what receives blocks of other GPUs', (transport, role, received) => {
    const device = { totalBytes: 1000, takenBytes: 300, reservedBytes: 50 };
    const ops = { freeMemory: () => 700, deviceMemory: () => device, ranks: ALONE };
    const kvTransfer = kvTransferConfig({ transport, role, bufferBytes: 40 });
    const config = { ...MEMORY, gpuMemoryUtilization: 0.5, kvTransfer };
    expect(cacheMemory(config, ops).bytes).toBe(1000 * 0.5 - 300 - 50 - received);
    const part = { stage: 1, ofBlock: 1 / 4 };
    expect(cacheMemory(config, ops, NOTHING, part).bytes).toBe(1000 * 0.5 - 300 - 50 - received / 4);
  });

  it('tells where the memory of a device is, where it does not suffice', () => {
    const [MB, device] = [2 ** 20, { totalBytes: 2 ** 30, takenBytes: 2 ** 29, reservedBytes: 2 ** 28 }];
    const ops = { freeMemory: () => 100 * MB, deviceMemory: () => device, ranks: ALONE };
    const config = { ...CONFIG, gpuMemoryUtilization: 0.75, share: null };
    const memory = cacheMemory(config, ops, { ...NOTHING, activationBytes: 12 * MB });
    expect(() => chooseNumBlocks(config, DESIGN, 1024, memory)).toThrow(
      "Of the GPU's 1.0 GiB, --gpu-memory-utilization 0.75 gives 768.0 MiB: 500.0 MiB are taken by weights and kernels, 12.0 MiB by " +
        'activations (less with a lower --max-num-batched-tokens or --max-num-seqs), 256.0 MiB are kept for CUDA graphs and arrays of ' +
        'steps (less with --enforce-eager), 100.0 MiB are free beside other processes',
    );
  });

  it('leaves room for the states of all stages and ranks, or for those of the stage that a device has', () => {
    const states = (layers: number) => ({ layers, slots: 3, width: 1024 });
    const stages = [
      { ...SHAPE, layers: 1, states: states(1) },
      { ...SHAPE, layers: 3, states: states(2) },
    ];
    const design = { shape: { ...SHAPE, layers: 4, states: states(3) }, windows: [null], stages };
    const ofState = 3 * 1024 * 4;
    expect(stateBytes(design, room(0, 2))).toBe(2 * 3 * ofState);
    const choose = (memory: CacheMemory) => chooseNumBlocks(CONFIG, design, 32, memory);
    expect(choose(room(2 * 3 * ofState + 2 * 5 * 2 * BLOCK_BYTES, 2))).toBe(5);
    const second = (bytes: number) => ({ ...room(bytes, 2), stage: 1 });
    expect(choose(second(2 * ofState + (5 * 3 * BLOCK_BYTES) / 2))).toBe(5);
    expect(() => choose(room(0, 2))).toThrow(`at least ${2 * 3 * ofState + 2 * 2 * 2 * BLOCK_BYTES} `);
    // The states of one sequence go in as many blocks as the stage needs that has the most of them for its rows.
    const more = { ...stages[0]!, states: states(4) };
    expect(numStateBlocks([stages[1]!, more])).toBe(Math.ceil((4 * 1024 * 4) / (BLOCK_BYTES / 2)));
  });

  it('takes what fits', () => {
    expect(chooseNumBlocks(CONFIG, DESIGN, 1024, room(100.5 * BLOCK_BYTES))).toBe(100);
  });

  it('takes no more than --max-num-seqs requests of the whole context could use', () => {
    expect(chooseNumBlocks(CONFIG, DESIGN, 64, room(1e12))).toBe(4 * 4);
  });

  it('takes --kv-cache-memory-bytes as it is', () => {
    const config = { ...CONFIG, kvCacheMemoryBytes: 1000 * BLOCK_BYTES };
    expect(chooseNumBlocks(config, DESIGN, 64, room(1000 * BLOCK_BYTES))).toBe(1000);
  });

  it.each([
    ['the limit of the model where that fits', 1e12, 1024],
    ['what fits, in whole blocks', 10.5 * BLOCK_BYTES, 160],
    ['one block where not even that fits, of which the next check tells', 0, 16],
  ])('gives the longest sequence: %s', (_, free, expected) => {
    expect(longestFitting(CONFIG, DESIGN, 1024, room(free))).toBe(expected);
  });

  it('holds a sequence of the longest length exactly', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 10_000 }), fc.integer({ min: 1, max: 5000 }), (blocks, limit) => {
        const memory = room(blocks * BLOCK_BYTES);
        const longest = longestFitting(CONFIG, DESIGN, limit, memory);
        expect(chooseNumBlocks(CONFIG, DESIGN, longest, memory)).toBeGreaterThanOrEqual(
          Math.ceil(longest / 16),
        );
        if (longest < limit)
          expect(() => chooseNumBlocks(CONFIG, DESIGN, longest + 1, memory)).toThrow(ConfigError);
      }),
    );
  });

  it('needs, where layers have windows, only what these see and a step computes, and says so', () => {
    const windows = [null, 20, 20];
    // 64 blocks of the whole context, and twice those of 19 + 32 tokens that begin and end anywhere.
    const needed = 64 + 2 * 5;
    const design = { shape: { ...SHAPE, layers: 6, layerGroups: [0, 1, 2, 0, 1, 2] }, windows };
    const memory = room(needed * BLOCK_BYTES);
    expect(kvBlockBytes(design.shape)).toBe(BLOCK_BYTES);
    expect(chooseNumBlocks(CONFIG, design, 1024, memory)).toBe(needed);
    expect(longestFitting(CONFIG, design, 1e6, memory)).toBe(1024);
    expect(() => chooseNumBlocks(CONFIG, design, 1025, memory)).toThrow(
      `room for 1024 tokens, one request of max_model_len needs 1025: raise --kv-cache-memory-bytes to at least ${75 * BLOCK_BYTES} `,
    );
    expect(chooseNumBlocks(CONFIG, design, 1024, room(1e12))).toBe(4 * needed);
  });

  it('refuses a cache that could not hold one request of the whole context, and says how much it needs', () => {
    const memory = room(63 * BLOCK_BYTES);
    expect(() => chooseNumBlocks(CONFIG, DESIGN, 1024, memory)).toThrow(ConfigError);
    expect(() => chooseNumBlocks(CONFIG, DESIGN, 1024, memory)).toThrow(
      `room for 1008 tokens, one request of max_model_len needs 1024: raise --kv-cache-memory-bytes to at least ${64 * BLOCK_BYTES} ` +
        '(or --gpu-memory-utilization), or lower --max-model-len to at most 1008',
    );
  });

  it('names what several engines need together, since the option is of all of them', () => {
    expect(() =>
      chooseNumBlocks({ ...CONFIG, dataParallelSize: 3 }, DESIGN, 1024, room(63 * BLOCK_BYTES)),
    ).toThrow(`raise --kv-cache-memory-bytes to at least ${3 * 64 * BLOCK_BYTES} `);
  });
});
