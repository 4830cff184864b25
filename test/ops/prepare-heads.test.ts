// What one op makes of the heads of a row has the bits of the ops that it stands for, on every backend.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KvDType } from '../../src/ops/dtype.ts';
import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { HeadPreparation, Ops, RopeSections, StepInputs, Tensor } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { describeEachIsa, kvDTypes, openCpu, Random } from './native-backends.ts';
import { beginStep } from './steps.ts';

interface Case {
  readonly headDim: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly dtypes?: readonly KvDType[];
  readonly hasNorms?: boolean;
  /** Null: no rotation. */
  readonly rope: {
    readonly first?: number;
    readonly rotaryDim?: number;
    readonly isInterleaved?: boolean;
    readonly sections?: RopeSections;
  } | null;
}

const CASES: readonly Case[] = [
  { headDim: 64, heads: 2, kvHeads: 1, rope: {} },
  { headDim: 128, heads: 4, kvHeads: 2, hasNorms: true, rope: {} },
  { headDim: 256, heads: 2, kvHeads: 1, hasNorms: true, rope: { rotaryDim: 64 } },
  { headDim: 80, heads: 3, kvHeads: 3, rope: { rotaryDim: 24, isInterleaved: true } },
  { headDim: 40, heads: 9, kvHeads: 3, hasNorms: true, rope: { first: 8, rotaryDim: 20 } },
  { headDim: 64, heads: 2, kvHeads: 1, rope: { sections: { lines: 12, columns: 12, alternate: false } } },
  {
    headDim: 128,
    heads: 2,
    kvHeads: 2,
    hasNorms: true,
    rope: { rotaryDim: 64, sections: { lines: 11, columns: 10, alternate: true } },
  },
  { headDim: 96, heads: 1, kvHeads: 1, hasNorms: true, rope: null },
  { headDim: 16, heads: 2, kvHeads: 2, rope: null },
  { headDim: 2, heads: 2, kvHeads: 1, dtypes: ['f32'], rope: {} },
  { headDim: 300, heads: 2, kvHeads: 1, dtypes: ['f32'], hasNorms: true, rope: {} },
];

const ROWS = 5;
/** Of two blocks of 16; that of the third row is nowhere. */
const SLOTS = Int32Array.of(3, 17, -1, 0, 31);
const POSITIONS = Int32Array.of(3, 0, 7, 1, 15);
const PLANE_POSITIONS = Int32Array.of(4, 0, 9, 2, 3, 15, 14, 0, 1, 2);

/** All that the step leaves: q, and what attention finds in the cache at the end. */
function bitsOf(ops: Ops, one: Case, dtype: KvDType, prepare: Prepare): Float32Array {
  const { headDim, heads, kvHeads, hasNorms = false, rope } = one;
  const random = new Random(headDim);
  const widths = [heads * headDim, kvHeads * headDim, kvHeads * headDim];
  const cols = widths.reduce((sum, width) => sum + width, 0);
  return ops.scope(() => {
    const shape = { layers: 2, blocks: 2, blockSize: 16, kvHeads, headDim, dtype };
    const cache = ops.makeKvCache(shape);
    const [q, k, v] = ops.split(ops.tensor(random.floats(ROWS * cols), ROWS, cols, 'f32'), widths);
    const vector = (length: number) => ops.makeVector(random.floats(length));
    const norms = hasNorms ? { query: vector(headDim), key: vector(headDim), eps: 1e-5 } : undefined;
    const turned = rope?.rotaryDim ?? headDim;
    const [queries, keys] = [vector(16 * turned), vector(16 * turned)];
    const rotation = rope === null ? undefined : { queries, keys, heads: { headDim, ...rope } };
    const step = beginStep(ops, cache, ROWS, {
      positions: POSITIONS,
      planePositions: PLANE_POSITIONS,
      slotMapping: SLOTS,
    });
    prepare(ops, [q!, k!, v!], step, { layer: 1, norms, rotation });
    return Float32Array.from([...ops.read(q!), ...seen(ops, cache, q!.cols)]);
  });
}

/** Each of 32 tokens by itself, as a sequence of that many. */
function seen(ops: Ops, cache: StepInputs['cache'], cols: number): Float32Array {
  const contextLengths = Int32Array.from({ length: 32 }, (_, i) => i + 1);
  const step = beginStep(ops, cache, 32, {
    batch: {
      numSequences: 32,
      queryStarts: Int32Array.from({ length: 33 }, (_, i) => i),
      contextLengths,
      blockTables: Int32Array.from({ length: 64 }, (_, i) => i % 2),
      maxBlocks: 2,
    },
    slotMapping: new Int32Array(32).fill(-1),
  });
  const q = ops.tensor(new Random(5).floats(32 * cols), 32, cols, 'f32');
  return ops.read(ops.attention(q, step, { layer: 1, scale: 0.3, window: null }));
}

type Prepare = (
  ops: Ops,
  heads: readonly [q: Tensor, k: Tensor, v: Tensor],
  step: StepInputs,
  how: HeadPreparation,
) => void;

const atOnce: Prepare = (ops, [q, k, v], step, how) => ops.prepareHeads(q, k, v, step, how);

const oneByOne: Prepare = (ops, [q, k, v], step, { layer, norms, rotation }) => {
  if (norms) {
    ops.qkNorm(q, norms.query, norms.eps);
    ops.qkNorm(k, norms.key, norms.eps);
  }
  if (rotation) {
    ops.rope(q, step, rotation.queries, rotation.heads);
    ops.rope(k, step, rotation.keys, rotation.heads);
  }
  ops.storeKv(k, v, step, layer);
};

function hasBitsOfOthers(opened: () => Ops): void {
  it.each(CASES)('of $heads and $kvHeads heads of $headDim, norms $hasNorms, turned $rope', (one) => {
    for (const dtype of one.dtypes ?? kvDTypes) {
      expect(bitsOf(opened(), one, dtype, atOnce)).toEqual(bitsOf(opened(), one, dtype, oneByOne));
    }
  });
}

describe('prepareHeads of the reference', () => {
  const reference = new ReferenceOps();
  hasBitsOfOthers(() => reference);
});

describeEachIsa('prepareHeads', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  hasBitsOfOthers(() => cpu);

  it('refuses what does not fit', () => {
    const cache = cpu.makeKvCache({
      layers: 1,
      blocks: 1,
      blockSize: 16,
      kvHeads: 1,
      headDim: 8,
      dtype: 'f32',
    });
    const x = (cols = 8) => cpu.tensor(new Float32Array(cols), 1, cols, 'f32');
    const vector = (length: number) => cpu.makeVector(new Float32Array(length));
    const prepare = (q: Tensor, k: Tensor, how: Partial<HeadPreparation>) =>
      cpu.prepareHeads(q, k, x(), beginStep(cpu, cache, 1), { layer: 0, ...how });
    expect(() => prepare(x(), x(4), {})).toThrow(/k \[1, 8\] f32, got \[1, 4\]/);
    expect(() => prepare(x(12), x(), {})).toThrow(/whole heads of 8, got 12/);
    expect(() => prepare(x(), x(), { layer: 1 })).toThrow(/a layer from 0 to 0, got 1/);
    const norms = { query: vector(8), key: vector(4), eps: 1 };
    expect(() => prepare(x(), x(), { norms })).toThrow(/weights of heads of 8, got 4/);
    const rotation = { queries: vector(8), keys: vector(8), heads: { headDim: 4 } };
    expect(() => prepare(x(), x(), { rotation })).toThrow(/headDim 8, got 4/);
  });
});

describe('prepareHeads of the CUDA backend', needsCudaEmulator, () => {
  let cuda: NativeOps;
  beforeAll(() => {
    cuda = openCuda();
  });
  afterAll(() => cuda.close());
  hasBitsOfOthers(() => cuda);
});
