import { describe, expect, it } from 'vitest';
import { ShapeError } from '../../../src/errors.ts';
import type { AttentionBatch, KvCache } from '../../../src/ops/ops.ts';
import { ReferenceOps } from '../../../src/ops/reference/reference-ops.ts';
import { beginStepInto, beginStepOver } from '../steps.ts';

const ops = new ReferenceOps();
const tensor = (rows: number, cols: number, ...values: number[]) =>
  ops.tensor(Float32Array.from(values), rows, cols, 'f32');
const options = { layer: 0, scale: 1, window: null };

function cacheOf(kvHeads: number, headDim: number, dtype: 'f32' | 'bf16' = 'f32'): KvCache {
  return ops.makeKvCache({ layers: 1, blocks: 3, blockSize: 16, kvHeads, headDim, dtype });
}

function batchOf(rows: number[], contexts: number[], tables: number[][]): AttentionBatch {
  const starts = [0];
  for (const count of rows) starts.push(starts.at(-1)! + count);
  return {
    numSequences: rows.length,
    queryStarts: Int32Array.from(starts),
    contextLengths: Int32Array.from(contexts),
    blockTables: Int32Array.from(tables.flat()),
    maxBlocks: tables[0]!.length,
  };
}

describe('attention', () => {
  it('weighs the values of the past by the softmax of the scores', () => {
    const cache = cacheOf(1, 1);
    ops.storeKv(
      tensor(2, 1, 0, Math.log(3)),
      tensor(2, 1, 4, 8),
      beginStepInto(ops, cache, Int32Array.of(0, 1)),
      0,
    );
    const out = ops.attention(tensor(1, 1, 1), beginStepOver(ops, cache, batchOf([1], [2], [[0]])), options);
    expect(ops.read(out)[0]).toBeCloseTo(7, 6);
  });

  it('is causal within a chunk, and reads what came before it', () => {
    const cache = cacheOf(1, 1);
    const zeros = new Array<number>(3).fill(0);
    ops.storeKv(
      tensor(3, 1, ...zeros),
      tensor(3, 1, 1, 2, 6),
      beginStepInto(ops, cache, Int32Array.of(0, 1, 2)),
      0,
    );
    const out = ops.attention(
      tensor(2, 1, 1, 1),
      beginStepOver(ops, cache, batchOf([2], [3], [[0]])),
      options,
    );
    expect([...ops.read(out)]).toEqual([1.5, 3]);
  });

  it('sees no further back than the window', () => {
    const cache = cacheOf(1, 1);
    const slots = Int32Array.from({ length: 20 }, (_, i) => (i < 16 ? 16 + i : i - 16));
    const values = Array.from({ length: 20 }, (_, i) => i);
    ops.storeKv(
      tensor(20, 1, ...values.map(() => 0)),
      tensor(20, 1, ...values),
      beginStepInto(ops, cache, slots),
      0,
    );
    const batch = batchOf([2], [20], [[1, 0]]);
    const out = ops.attention(tensor(2, 1, 1, 1), beginStepOver(ops, cache, batch), {
      ...options,
      window: 2,
    });
    expect([...ops.read(out)]).toEqual([17.5, 18.5]);
  });

  it('sees no further back than the last multiple of the chunk', () => {
    const cache = cacheOf(1, 1);
    const slots = Int32Array.from({ length: 9 }, (_, i) => i);
    ops.storeKv(
      tensor(9, 1, ...new Array<number>(9).fill(0)),
      tensor(9, 1, ...slots),
      beginStepInto(ops, cache, slots),
      0,
    );
    const seen = (how: { window: number | null; chunk: number }) => {
      const step = beginStepOver(ops, cache, batchOf([5], [9], [[0]]));
      return [...ops.read(ops.attention(tensor(5, 1, 1, 1, 1, 1, 1), step, { ...options, ...how }))];
    };
    expect(seen({ window: null, chunk: 3 })).toEqual([3.5, 4, 6, 6.5, 7]);
    expect(seen({ window: 2, chunk: 3 })).toEqual([3.5, 4.5, 6, 6.5, 7.5]);
    const step = beginStepOver(ops, cache, batchOf([1], [9], [[0]]));
    const both = { ...options, chunk: 3, isBidirectional: true };
    expect(() => ops.attention(tensor(1, 1, 1), step, both)).toThrow(ShapeError);
  });

  it('shows tokens after them to those of sequences that say so, no further than the window', () => {
    const cache = cacheOf(1, 1);
    const slots = Int32Array.from({ length: 7 }, (_, i) => i);
    ops.storeKv(
      tensor(7, 1, ...new Array<number>(7).fill(0)),
      tensor(7, 1, 1, 2, 4, 8, 16, 32, 64),
      beginStepInto(ops, cache, slots),
      0,
    );
    // Tokens 1 to 3 are a sequence to attention, and so are those before and after them.
    const batch = {
      ...batchOf([1, 3, 3], [1, 4, 7], [[0], [0], [0]]),
      bidirectional: Int32Array.of(0, 1, 0),
    };
    const seen = (window: number | null) => {
      const q = tensor(7, 1, 1, 1, 1, 1, 1, 1, 1);
      return [...ops.read(ops.attention(q, beginStepOver(ops, cache, batch), { ...options, window }))];
    };
    const means = (...sums: readonly (readonly number[])[]) =>
      sums.map((values) => values.reduce((sum, value) => sum + value, 0) / values.length);
    const close = (got: readonly number[], expected: readonly number[]) =>
      got.map((value, i) => expect(value).toBeCloseTo(expected[i]!, 5));
    const image = [1, 2, 4, 8];
    close(seen(null), [
      ...means([1], image, image, image),
      ...means([...image, 16], [...image, 16, 32], [...image, 16, 32, 64]),
    ]);
    close(seen(3), means([1], image, image, [2, 4, 8], [4, 8, 16], [8, 16, 32], [16, 32, 64]));
    const step = beginStepOver(ops, cache, batch);
    const q = tensor(7, 1, 1, 1, 1, 1, 1, 1, 1);
    const none = ops.read(ops.attention(q, step, { ...options, isBidirectional: false }));
    close(
      [...none],
      means([1], [1, 2], [1, 2, 4], image, [...image, 16], [...image, 16, 32], [...image, 16, 32, 64]),
    );
    const inChunks = { ...options, chunk: 3 };
    expect(() => ops.attention(tensor(7, 1, 1, 1, 1, 1, 1, 1, 1), step, inChunks)).toThrow(ShapeError);
    const wrong = { ...batch, bidirectional: Int32Array.of(0) };
    expect(() => beginStepOver(ops, cache, wrong)).toThrow(/bidirectional \[3\], got \[1\]/);
  });

  it('lets a group of query heads share a head of keys and values', () => {
    const cache = cacheOf(2, 1);
    ops.storeKv(tensor(1, 2, 0, 0), tensor(1, 2, 5, 9), beginStepInto(ops, cache, Int32Array.of(0)), 0);
    const out = ops.attention(
      tensor(1, 4, 1, 1, 1, 1),
      beginStepOver(ops, cache, batchOf([1], [1], [[0]])),
      options,
    );
    expect([...ops.read(out)]).toEqual([5, 5, 9, 9]);
  });

  it('keeps sequences apart, one without rows in this step among them', () => {
    const cache = cacheOf(1, 1);
    ops.storeKv(
      tensor(3, 1, 0, 0, 0),
      tensor(3, 1, 1, 2, 3),
      beginStepInto(ops, cache, Int32Array.of(0, 16, 32)),
      0,
    );
    const batch = batchOf([1, 0, 1], [1, 1, 1], [[0], [1], [2]]);
    expect([
      ...ops.read(ops.attention(tensor(2, 1, 1, 1), beginStepOver(ops, cache, batch), options)),
    ]).toEqual([1, 3]);
  });

  it('rounds keys and values to a bf16 cache, and its output', () => {
    const cache = cacheOf(1, 1, 'bf16');
    ops.storeKv(tensor(1, 1, 0), tensor(1, 1, 1 + 2 ** -9), beginStepInto(ops, cache, Int32Array.of(0)), 0);
    const out = ops.attention(tensor(1, 1, 1), beginStepOver(ops, cache, batchOf([1], [1], [[0]])), options);
    expect([out.dtype, ...ops.read(out)]).toEqual(['bf16', 1]);
  });

  it('has blocks of the size that their numbers take', () => {
    expect(cacheOf(2, 8, 'bf16').layerBlockBytes).toBe(2 * 2 * 16 * 8 * 2);
    expect(cacheOf(2, 8).layerBlockBytes).toBe(2 * 2 * 16 * 8 * 4);
  });

  const over = (cache: KvCache, rows: number[], contexts: number[], tables: number[][]) =>
    beginStepOver(ops, cache, batchOf(rows, contexts, tables));

  it.each([
    [
      'rows that are not the step’s',
      () => ops.attention(tensor(2, 1, 1, 1), over(cacheOf(1, 1), [1], [1], [[0]]), options),
    ],
    [
      'heads that are no multiple',
      () => ops.attention(tensor(1, 3, 1, 1, 1), over(cacheOf(2, 1), [1], [1], [[0]]), options),
    ],
    ['a context shorter than its rows', () => over(cacheOf(1, 1), [2], [1], [[0]])],
    ['a context longer than its blocks', () => over(cacheOf(1, 1), [1], [17], [[0]])],
    ['a block that is not there', () => over(cacheOf(1, 1), [1], [1], [[3]])],
    ['a slot that is not there', () => beginStepInto(ops, cacheOf(1, 1), Int32Array.of(48))],
    [
      'a layer that is not there',
      () => {
        const step = over(cacheOf(1, 1), [1], [1], [[0]]);
        return ops.attention(tensor(1, 1, 1), step, { ...options, layer: 1 });
      },
    ],
    [
      'a block size that is no multiple of 16',
      () => ops.makeKvCache({ layers: 1, blocks: 1, blockSize: 8, kvHeads: 1, headDim: 1, dtype: 'f32' }),
    ],
  ])('refuses %s', (_, call) => {
    expect(call).toThrow(ShapeError);
  });
});
