// Rows that fill a batch up: their keys and values are kept nowhere.

import { afterAll, describe, expect, it } from 'vitest';
import { NO_SLOT, type Ops } from '../../src/ops/ops.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { Random } from './native-backends.ts';
import { beginStepInto, beginStepOver } from './steps.ts';

const SHAPE = { layers: 1, blocks: 2, blockSize: 16, kvHeads: 1, headDim: 16, dtype: 'bf16' } as const;

/** Attention over all slots of both blocks, once they have been written. */
function changeOf(ops: Ops): { before: Float32Array; after: Float32Array } {
  const random = new Random(1);
  const cache = ops.makeKvCache(SHAPE);
  const rows = SHAPE.blocks * SHAPE.blockSize;
  return ops.scope(() => {
    const floats = () => ops.tensor(random.floats(rows * SHAPE.headDim), rows, SHAPE.headDim, 'f32');
    const query = floats();
    const store = (slots: Int32Array) => ops.storeKv(floats(), floats(), beginStepInto(ops, cache, slots), 0);
    const look = () => {
      const batch = {
        numSequences: 1,
        queryStarts: Int32Array.of(0, rows),
        contextLengths: Int32Array.of(rows),
        blockTables: Int32Array.of(0, 1),
        maxBlocks: 2,
      };
      const step = beginStepOver(ops, cache, batch);
      return ops.read(ops.attention(query, step, { layer: 0, scale: 1, window: null }));
    };
    store(Int32Array.from({ length: rows }, (_, slot) => slot));
    const before = look();
    store(new Int32Array(rows).fill(NO_SLOT));
    return { before, after: look() };
  });
}

function describeBackend(open: () => Ops): void {
  const ops = open();
  afterAll(() => ops.close());
  it('writes nothing for a row without a slot', () => {
    const { before, after } = changeOf(ops);
    expect(after).toEqual(before);
  });
}

describe.each(availableBackends)('the %s backend', (backend) => describeBackend(() => openBackend(backend)));
describeCuda('the cuda backend', () => describeBackend(openCuda));
