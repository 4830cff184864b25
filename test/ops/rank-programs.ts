// What a rank does in a test, on a thread of its own: a rank on a GPU waits in an op until the others have come to it.

import type { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankPlace } from '../../src/ops/ranks.ts';
import { narrow, plainPart, type TensorSource } from '../../src/ops/weights.ts';

/** Numbers of a row-major tensor. */
interface Numbers {
  readonly rows: number;
  readonly cols: number;
  readonly values: Float32Array;
}

export const PROGRAMS = {
  nothing() {},

  /** @param parts [ranks] */
  sum(ops: NativeOps, { rank }: RankPlace, parts: readonly Numbers[]): Float32Array {
    const { rows, cols, values } = parts[rank]!;
    const x = ops.tensor(values, rows, cols, 'f32');
    ops.sumRanks(x);
    return ops.read(x);
  },

  /** The same, where rank 0 looks at nothing until it is told, and its device has had time to go on. */
  sumSeenLate(
    ops: NativeOps,
    { rank }: RankPlace,
    { values, told }: { values: readonly number[]; told: Int32Array },
  ): number[] {
    const x = ops.tensor(Float32Array.from(values), 1, values.length, 'f32');
    ops.sumRanks(x);
    const sum = ops.readLater(x);
    if (rank === 0) {
      Atomics.wait(told, 0, 0);
      Atomics.wait(told, 0, 1, 100);
    }
    return [...sum.read()];
  },

  /** All columns of three rows, of which a rank has `widths[rank]`. */
  columns(ops: NativeOps, { rank }: RankPlace, widths: readonly number[]): number[][] {
    return (['f32', 'bf16'] as const).map((dtype) => {
      const values = Float32Array.from({ length: 3 * widths[rank]! }, (_, at) => columnValue(rank, at));
      return [...ops.read(ops.gatherColumns(ops.tensor(values, 3, widths[rank]!, dtype), widths))];
    });
  },

  /** A product with the rank's share of the rows of a weight. */
  product(
    ops: NativeOps,
    { rank, size }: RankPlace,
    { x, weight, splitsK }: { x: Numbers; weight: TensorSource; splitsK: boolean },
  ): Float32Array {
    const share = weight.shape[0]! / size;
    const own = ops.loadLinear([plainPart(narrow(weight, 0, rank * share, share))], 'bf16', splitsK);
    const part = ops.linear(ops.tensor(x.values, x.rows, x.cols, 'bf16'), own);
    return ops.read(size === 1 ? part : ops.gatherColumns(part, new Array<number>(size).fill(share)));
  },

  /** Two rows of the columns that a rank has in place, of one number each: its place. */
  columnsInPlace(ops: NativeOps, { rank }: RankPlace, widths: readonly number[]): number[] {
    const cols = widths.reduce((sum, width) => sum + width);
    const x = ops.tensor(new Float32Array(2 * cols).fill(rank + 1), 2, cols, 'f32');
    ops.shareColumns(x, widths);
    return [...ops.read(x)];
  },

  /** Tokens that rank 0 samples greedily. */
  sampled(ops: NativeOps, { rank }: RankPlace, { rows, cols, values }: Numbers): number[] {
    const sample = () =>
      ops.sample(ops.tensor(values, rows, cols, 'f32'), {
        temperature: new Float32Array(rows),
        topK: new Int32Array(rows),
        topP: new Float32Array(rows).fill(1),
        minP: new Float32Array(rows),
        uniform: new Float64Array(rows),
      });
    return [...ops.shareSampled(rank === 0 ? sample() : null, rows).read()];
  },

  /** Sums of sums, on memory that comes again: what no rank reads before all are called. */
  rounds(ops: NativeOps, { rank, size }: RankPlace, count: number): number[] {
    const results = Array.from({ length: count }, (_, round) =>
      ops.scope(() => {
        const x = ops.tensor(Float32Array.of(round + rank), 1, 1, 'f32');
        ops.sumRanks(x);
        return ops.readLater(ops.gatherColumns(x, new Array<number>(size).fill(1)));
      }),
    );
    return results.map((result) => result.read().reduce((a, b) => a + b));
  },

  /** An op of no rows before any other. */
  noRows(ops: NativeOps): void {
    ops.sumRanks(ops.tensor(new Float32Array(0), 0, 1, 'f32'));
    ops.mark().read();
  },

  /** A sum before a pause, and behind it one of no rows, and another. */
  aroundPause(ops: NativeOps, { rank }: RankPlace, pauseMs: number): number[] {
    const sum = () => {
      const x = ops.tensor(Float32Array.of(rank + 1), 1, 1, 'f32');
      ops.sumRanks(x);
      return x;
    };
    const before = ops.read(sum())[0]!;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
    ops.sumRanks(ops.tensor(new Float32Array(0), 0, 1, 'f32'));
    ops.mark().read();
    return [before, ops.read(sum())[0]!];
  },

  /** Sums of more and more rows, each of which needs more memory; one rank comes late to each, and needs some of its own. */
  growing(ops: NativeOps, { rank, size }: RankPlace, count: number): number[] {
    return Array.from({ length: count }, (_, round) => {
      const rows = 2 ** round;
      const x = ops.tensor(new Float32Array(1024 * rows).fill(rank), rows, 1024, 'f32');
      if (rank === round % size) ops.read(ops.tensor(new Float32Array(2048 * rows), rows, 2048, 'f32'));
      ops.sumRanks(x);
      return ops.read(x).at(-1)!;
    });
  },
} as const;

/** The number of a rank's columns that is the `at`th of its rows. */
export function columnValue(rank: number, at: number): number {
  return (rank * 31 + at) % 250;
}

export type ProgramName = keyof typeof PROGRAMS;
/** What a program is told, the same for all ranks. */
export type ProgramInput<Name extends ProgramName> =
  Parameters<(typeof PROGRAMS)[Name]> extends [NativeOps, RankPlace, infer Input] ? Input : undefined;
export type ProgramResult<Name extends ProgramName> = ReturnType<(typeof PROGRAMS)[Name]>;
