// Adapters for tests: loras of several shapes, products with them, and which adapter each row of a step has.

import { inputDTypeOf, type WeightFormat } from '../../src/ops/dtype.ts';
import { type LoraPart, NO_ADAPTER } from '../../src/ops/lora.ts';
import type { Ops, StepLoras } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import type { WeightFolder } from '../helpers/weight-file.ts';
import { Random } from './native-backends.ts';
import { beginStep } from './steps.ts';

/** Enough of k for products of many rows to be computed in two parts of it. */
export const [N, K] = [75, 651];
/** Adapters by their ids: ranks, first column and columns of each part of a product. */
const ADAPTERS: ReadonlyMap<number, readonly (readonly [ranks: number, first: number, columns: number])[]> =
  new Map([
    [
      3,
      [
        [16, 0, 40],
        [5, 40, 20],
        [1, 60, 15],
      ],
    ],
    [
      7,
      [
        [33, 0, 10],
        [20, 24, 51],
      ],
    ],
    [4, [[64, 0, N]]],
  ]);

export interface Product {
  /** One row an adapter, in this order; the rows are those of `x`. */
  run(rows: Float32Array, adapters: readonly number[]): Float32Array;
}

/** The ids of a step's adapters: each has the rows that follow each other. */
export function stepOf(ops: Ops, adapters: readonly number[]) {
  const rows = adapters.length;
  const shape = { layers: 1, blocks: rows, blockSize: 16, kvHeads: 1, headDim: 8, dtype: ops.half } as const;
  const batch = {
    numSequences: rows,
    queryStarts: Int32Array.from({ length: rows + 1 }, (_, i) => i),
    contextLengths: new Int32Array(rows).fill(1),
    blockTables: Int32Array.from({ length: rows }, (_, i) => i),
    maxBlocks: 1,
  };
  const positions = new Int32Array(rows);
  return beginStep(ops, ops.makeKvCache(shape), rows, {
    batch,
    positions,
    adapters: Int32Array.from(adapters),
  });
}

/** Of gate and up, gate has the first ranks, for the columns of the last shape; up has the others, for those of the first. */
function partsOf(
  shapes: readonly (readonly [number, number, number])[],
  isGateUp: boolean,
): readonly LoraPart[] {
  const [gate, up] = [shapes.at(-1)!, shapes[0]!];
  const own = isGateUp ? [gate, [up[0], N + up[1], up[2]] as const] : shapes;
  let firstRank = 0;
  return own.map(([ranks, firstColumn, columns]) => {
    const part = { firstColumn, columns, firstRank, ranks };
    firstRank += ranks;
    return part;
  });
}

export function product(
  folder: WeightFolder,
  ops: Ops,
  format: WeightFormat,
  kind: 'linear' | 'addLinear' | 'gateUp',
): Product {
  const dtype = inputDTypeOf(format, ops.half);
  const random = new Random(1);
  const part = () =>
    plainPart(folder.write([N, K], random.floats(N * K)), folder.write([N], random.floats(N)));
  const [weight, other] = [part(), part()];
  const [linear, gateUp] = [
    // What is added is row-parallel in models.
    ops.loadLinear([weight], format, kind === 'addLinear'),
    ops.loadGateUp(weight, other, format),
  ];
  const isGateUp = kind === 'gateUp';
  const loras = [...ADAPTERS].map(([adapter, shapes]) => {
    const parts = partsOf(shapes, isGateUp);
    const rank = Math.max(...parts.map(({ firstRank, ranks }) => firstRank + ranks));
    const a = random.floats(rank * K);
    const scales = random.floats(rank).map((scale) => 0.2 * scale);
    const b = random.floats(parts.reduce((sum, { columns, ranks }) => sum + columns * ranks, 0));
    const lora = ops.makeLora({ dtype, k: K, n: N, isGateUp, rank, a, scales, parts, b });
    return { adapter, lora };
  });
  const run = (x: Float32Array, adapters: readonly number[]): Float32Array =>
    ops.scope(() => {
      const rows = adapters.length;
      const input = ops.tensor(x, rows, K, dtype);
      const step = stepOf(ops, adapters);
      const own: StepLoras | undefined = step.adapters.size === 0 ? undefined : { step, loras };
      if (kind === 'gateUp') return ops.read(ops.gateUp(input, gateUp, 'silu', own));
      if (kind === 'linear') return ops.read(ops.linear(input, linear, own));
      const residual = ops.tensor(new Float32Array(rows * N).fill(0.5), rows, N, 'f32');
      ops.addLinear(residual, input, linear, own);
      return ops.read(residual);
    });
  return { run };
}

export const KINDS = ['linear', 'addLinear', 'gateUp'] as const;
const IDS = [...ADAPTERS.keys(), NO_ADAPTER];

/** `count` rows of adapters, `runs` of them the same one after the other. */
export const adaptersOf = (count: number, runs: number): number[] =>
  Array.from({ length: count }, (_, row) => IDS[Math.floor(row / runs) % IDS.length]!);
