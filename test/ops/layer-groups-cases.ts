// Laws of caches whose layers have block tables by group, or heads of their own, for any backend.

import { expect, it } from 'vitest';
import { ShapeError } from '../../src/errors.ts';
import { headsOf } from '../../src/ops/kv-rows.ts';
import type { KvCacheShape, KvHeads, Ops } from '../../src/ops/ops.ts';
import { Random } from './native-backends.ts';

const BLOCK = 16;
const CONTEXTS = [40, 7] as const;
export const SHAPE = {
  layers: 5,
  blocks: 4,
  blockSize: BLOCK,
  kvHeads: 2,
  headDim: 8,
  dtype: 'f32',
} as const;
/** Rows 0 and 1 of group 0 are layers 0 and 3, of group 1 layers 1 and 2; group 2 has one. */
export const LAYER_GROUPS = [0, 1, 1, 0, 2];
/** [groups][sequences] */
const TABLES = [
  [[9, 2, 5], [0]],
  [[1, 7, 3], [10]],
  [[4, 6, 8], [11]],
];

/** Attention of each layer over all tokens. */
function attend(ops: Ops, shape: KvCacheShape, tables: readonly (readonly (readonly number[])[])[]) {
  const cache = ops.makeKvCache(shape);
  const numTokens = CONTEXTS[0] + CONTEXTS[1];
  const positions = CONTEXTS.flatMap((context) => Array.from({ length: context }, (_, position) => position));
  const slots = tables.flatMap((group) =>
    CONTEXTS.flatMap((context, sequence) =>
      Array.from({ length: context }, (_, position) => {
        const block = group[sequence]![Math.floor(position / BLOCK)]!;
        return block * BLOCK + (position % BLOCK);
      }),
    ),
  );
  const step = ops.beginStep(cache, {
    positions: Int32Array.from(positions),
    slotMapping: Int32Array.from(slots),
    batch: {
      numSequences: 2,
      queryStarts: Int32Array.of(0, CONTEXTS[0], numTokens),
      contextLengths: Int32Array.from(CONTEXTS),
      blockTables: Int32Array.from(
        tables.flatMap((group) => group.flatMap((table) => [...table, 0, 0].slice(0, 3))),
      ),
      maxBlocks: 3,
    },
  });
  const layers = Array.from({ length: shape.layers }, (_, layer) => layer);
  const queries = layers.map((layer) => {
    const { kvHeads, headDim } = headsOf(shape, layer);
    const width = kvHeads * headDim;
    const random = new Random(3 + layer);
    const random2d = () => ops.tensor(random.floats(numTokens * width), numTokens, width, 'f32');
    ops.storeKv(random2d(), random2d(), step, layer);
    return random2d();
  });
  // After all are stored: none has written over another.
  return queries.map((q, layer) =>
    ops.read(ops.attention(q, step, { layer, scale: 0.3, window: layer % 2 === 0 ? null : 9 })),
  );
}

/** @param lone the heads of a layer that has a row by itself, and does not fill it */
export function describeLayerGroups(ops: Ops, lone: KvHeads): void {
  it('attend to the same bits in blocks of their own as in blocks of all layers', () => {
    const expected = attend(ops, SHAPE, [[[0, 1, 2], [3]]]);
    expect(attend(ops, { ...SHAPE, blocks: 12, layerGroups: LAYER_GROUPS }, TABLES)).toEqual(expected);
  });

  it.each(['f32', 'bf16', 'fp8', 'int8'] as const)(
    'with heads of their own attend to the same bits in %s as each in a cache of its own',
    (dtype) => {
      const of = (kvHeads: number, headDim: number) => ({ kvHeads, headDim });
      // Two of the layers of group 1 fill a row, which is as long as one of group 0.
      const layerHeads = [of(2, 32), of(4, 8), of(4, 8), of(2, 32), lone];
      const shape = { ...SHAPE, blocks: 12, dtype, layerGroups: LAYER_GROUPS, layerHeads };
      const together = attend(ops, shape, TABLES);
      const alone = layerHeads.map((heads, layer) => {
        return attend(ops, { ...SHAPE, dtype, ...heads }, [[[0, 1, 2], [3]]])[layer];
      });
      expect(together).toEqual(alone);
    },
  );

  it('need slots and block tables for each group, with blocks that are there', () => {
    const shape = { ...SHAPE, blocks: 12, layerGroups: LAYER_GROUPS };
    expect(() => attend(ops, shape, TABLES.slice(1))).toThrow(ShapeError);
    const outside = TABLES.map((group, index) => (index === 2 ? [[4, 6, 12], [11]] : group));
    expect(() => attend(ops, shape, outside)).toThrow(ShapeError);
  });
}
