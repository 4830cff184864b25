import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { chooseNumBlocks, kvBlockBytes, longestFitting } from '../../src/runner/kv-budget.ts';

const SHAPE = { layers: 2, blocks: 1, blockSize: 16, kvHeads: 2, headDim: 8, dtype: 'f32' } as const;
const BLOCK_BYTES = 2 * 2 * 16 * 2 * 8 * 4;
const CONFIG = {
  kvCacheMemoryBytes: null,
  gpuMemoryUtilization: 0.5,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 32,
  blockSize: 16,
};
const DESIGN = { shape: SHAPE, windows: [null] };

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

  it('takes its share of what is free', () => {
    expect(chooseNumBlocks(CONFIG, DESIGN, 1024, 200 * BLOCK_BYTES)).toBe(100);
  });

  it('takes no more than --max-num-seqs requests of the whole context could use', () => {
    expect(chooseNumBlocks(CONFIG, DESIGN, 64, 1e12)).toBe(4 * 4);
  });

  it('takes --kv-cache-memory-bytes as it is', () => {
    const config = { ...CONFIG, kvCacheMemoryBytes: 1000 * BLOCK_BYTES };
    expect(chooseNumBlocks(config, DESIGN, 64, 0)).toBe(1000);
  });

  it.each([
    ['the limit of the model where that fits', 1e12, 1024],
    ['what fits, in whole blocks', 2 * 10.5 * BLOCK_BYTES, 160],
    ['one block where not even that fits, of which the next check tells', 0, 16],
  ])('gives the longest sequence: %s', (_, free, expected) => {
    expect(longestFitting(CONFIG, DESIGN, 1024, free)).toBe(expected);
  });

  it('holds a sequence of the longest length exactly', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 10_000 }), fc.integer({ min: 1, max: 5000 }), (blocks, limit) => {
        const free = blocks * BLOCK_BYTES * 2;
        const longest = longestFitting(CONFIG, DESIGN, limit, free);
        expect(chooseNumBlocks(CONFIG, DESIGN, longest, free)).toBeGreaterThanOrEqual(
          Math.ceil(longest / 16),
        );
        if (longest < limit)
          expect(() => chooseNumBlocks(CONFIG, DESIGN, longest + 1, free)).toThrow(ConfigError);
      }),
    );
  });

  it('needs, where layers have windows, only what these see and a step computes, and says so', () => {
    const windows = [null, 20, 20];
    // 64 blocks of the whole context, and twice those of 19 + 32 tokens that begin and end anywhere.
    const needed = 64 + 2 * 5;
    const design = { shape: { ...SHAPE, layers: 6, layerGroups: [0, 1, 2, 0, 1, 2] }, windows };
    const config = { ...CONFIG, kvCacheMemoryBytes: needed * BLOCK_BYTES };
    expect(kvBlockBytes(design.shape)).toBe(BLOCK_BYTES);
    expect(chooseNumBlocks(config, design, 1024, 0)).toBe(needed);
    expect(longestFitting(config, design, 1e6, 0)).toBe(1024);
    expect(() => chooseNumBlocks(config, design, 1025, 0)).toThrow(
      `room for 1024 tokens, one request of max_model_len needs 1025: raise --kv-cache-memory-bytes to at least ${75 * BLOCK_BYTES} `,
    );
    expect(chooseNumBlocks(CONFIG, design, 1024, 1e12)).toBe(4 * needed);
  });

  it('refuses a cache that could not hold one request of the whole context, and says how much it needs', () => {
    const config = { ...CONFIG, kvCacheMemoryBytes: 63 * BLOCK_BYTES };
    expect(() => chooseNumBlocks(config, DESIGN, 1024, 0)).toThrow(ConfigError);
    expect(() => chooseNumBlocks(config, DESIGN, 1024, 0)).toThrow(
      `room for 1008 tokens, one request of max_model_len needs 1024: raise --kv-cache-memory-bytes to at least ${64 * BLOCK_BYTES} ` +
        '(or --gpu-memory-utilization), or lower --max-model-len to at most 1008',
    );
  });
});
