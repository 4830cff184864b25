// Steps for tests of single ops: what a test leaves out of the arrays does not matter to the op that it calls.

import type { AttentionBatch, KvCache, Ops, StepArrays, StepInputs } from '../../src/ops/ops.ts';

/** Begins a step of `rows` tokens over `cache`: one sequence at its beginning, unless `given` says otherwise. */
export function beginStep(
  ops: Ops,
  cache: KvCache,
  rows: number,
  given: Partial<StepArrays> = {},
): StepInputs {
  const positions = Int32Array.from({ length: rows }, (_, row) => row);
  return ops.beginStep(cache, {
    positions,
    slotMapping: new Int32Array(rows),
    batch: oneSequence(cache, rows),
    ...given,
  });
}

/** A step for ops that look at positions alone. */
export function beginStepAt(ops: Ops, positions: Int32Array): StepInputs {
  const blocks = Math.ceil((positions.length + 1) / 16);
  const shape = { layers: 1, blocks, blockSize: 16, kvHeads: 1, headDim: 2, dtype: 'f32' } as const;
  return beginStep(ops, ops.makeKvCache(shape), positions.length, { positions });
}

/** A step for ops that look at slots alone. */
export function beginStepInto(ops: Ops, cache: KvCache, slotMapping: Int32Array): StepInputs {
  return beginStep(ops, cache, slotMapping.length, { slotMapping });
}

/** A step for ops that look at the sequences alone. */
export function beginStepOver(ops: Ops, cache: KvCache, batch: AttentionBatch): StepInputs {
  return beginStep(ops, cache, batch.queryStarts[batch.numSequences]!, { batch });
}

function oneSequence({ shape }: KvCache, rows: number): AttentionBatch {
  const maxBlocks = Math.ceil(rows / shape.blockSize);
  return {
    numSequences: 1,
    queryStarts: Int32Array.of(0, rows),
    contextLengths: Int32Array.of(rows),
    blockTables: Int32Array.from({ length: maxBlocks }, (_, block) => block),
    maxBlocks,
  };
}
