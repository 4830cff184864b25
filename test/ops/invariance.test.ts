// Batch invariance of the native kernels: a row's bits do not depend on its company, its chunk or the threads.

import { afterAll, describe, expect, it } from 'vitest';
import { inputDTypeOf } from '../../src/ops/dtype.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { attend, type Heads, makeSequences, type Sequence, storeTokens } from './attention-cases.ts';
import { describeEachIsa, dtypes, formats, kvDTypes, openCpu, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const ROWS = 160;
/** Sizes on both sides of every change of tile: few rows, a block, many. */
const BATCHES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 31, 32, 33, 64, ROWS];
/** So large that kernels cut rows, columns and k in parts. */
const LARGE = { n: 75, k: 1400, batches: [1, 17, 256, 257, 300] };
const PRODUCTS = [
  ...formats.map((format) => ({ format, n: 203, k: 331, batches: BATCHES })),
  ...formats.map((format) => ({ format, ...LARGE })),
];

describeEachIsa('bits of a row', (isa) => {
  const one = openCpu(isa, 1);
  const two = openCpu(isa, 2);
  afterAll(() => {
    one.close();
    two.close();
  });

  it.each(PRODUCTS)(
    'are the same from linear and gateUp of $format, [$n, $k], in any batch and on any number of threads',
    ({ format, n, k, batches }) => {
      const dtype = inputDTypeOf(format, 'bf16');
      const random = new Random(1);
      const weight = plainPart(folder.write([n, k], random.floats(n * k)));
      const other = plainPart(folder.write([n, k], random.floats(n * k)));
      const most = Math.max(...batches);
      const x = random.floats(most * k, dtype);
      const compute = (ops: Ops): ((rows: number) => Float32Array) => {
        const [linear, gateUp] = [ops.loadLinear([weight], format), ops.loadGateUp(weight, other, format)];
        return (rows) =>
          ops.scope(() => {
            const input = ops.tensor(x.subarray(0, rows * k), rows, k, dtype);
            const both = [ops.read(ops.linear(input, linear)), ops.read(ops.gateUp(input, gateUp, 'silu'))];
            return Float32Array.from({ length: rows * 2 * n }, (_, i) => {
              const [row, column] = [Math.floor(i / (2 * n)), i % (2 * n)];
              return both[column < n ? 0 : 1]![row * n + (column % n)]!;
            });
          });
      };
      const [onOne, onTwo] = [compute(one), compute(two)];
      const whole = onOne(most);
      for (const rows of batches) {
        expect(onOne(rows)).toEqual(whole.slice(0, rows * 2 * n));
        expect(onTwo(rows)).toEqual(whole.slice(0, rows * 2 * n));
      }
    },
  );

  describe.each(kvDTypes)('over a %s cache', (dtype) => {
    it.each<Pick<Heads, 'window' | 'chunk' | 'softcap' | 'hasSinks'>>([
      { window: null },
      { window: 70, hasSinks: true },
      { window: null, chunk: 90 },
      ...(dtype === 'bf16' ? [{ window: null, softcap: 0.3 }] : []),
    ])('are the same from attention with any chunks of the prompt (%o)', (options) => {
      const heads: Heads = { headDim: 40, kvHeads: 2, group: 3, blockSize: 16, ...options };
      const random = new Random(2);
      const { sequences, numBlocks } = makeSequences(random, heads, dtype, [{ context: 700, queries: 700 }]);
      const sequence = sequences[0]!;
      const width = heads.headDim * heads.kvHeads * heads.group;
      const inChunks = (ops: Ops, chunks: readonly number[]): Float32Array => {
        const { kvHeads, headDim, blockSize } = heads;
        const shape = { layers: 1, blocks: numBlocks, blockSize, kvHeads, headDim, dtype };
        const cache = ops.makeKvCache(shape);
        const out = new Float32Array(700 * width);
        let done = 0;
        for (const chunk of chunks) {
          const part: Sequence = { ...sequence, context: done + chunk, queries: chunk };
          ops.scope(() => {
            storeTokens(ops, cache, 0, sequence, done, done + chunk);
            out.set(attend(ops, cache, 0, heads, [part]), done * width);
          });
          done += chunk;
        }
        return out;
      };
      const whole = inChunks(one, [700]);
      expect(inChunks(two, [700])).toEqual(whole);
      expect(
        inChunks(
          two,
          Array.from({ length: 100 }, () => 7),
        ),
      ).toEqual(whole);
      expect(inChunks(one, [1, 63, 64, 65, 300, 1, 1, 205])).toEqual(whole);
    });

    it('are the same from attention alone and among other sequences', () => {
      const heads: Heads = { headDim: 64, kvHeads: 2, group: 2, blockSize: 16, window: null };
      const sizes = [
        { context: 600, queries: 1 },
        { context: 30, queries: 30 },
        { context: 1300, queries: 1 },
        { context: 77, queries: 5 },
      ];
      const { sequences, numBlocks } = makeSequences(new Random(3), heads, dtype, sizes);
      const width = heads.headDim * heads.kvHeads * heads.group;
      const { kvHeads, headDim, blockSize } = heads;
      const shape = { layers: 1, blocks: numBlocks, blockSize, kvHeads, headDim, dtype };
      const run = (ops: Ops): { together: Float32Array; alone: Float32Array[] } => {
        const cache = ops.makeKvCache(shape);
        return ops.scope(() => {
          for (const sequence of sequences) storeTokens(ops, cache, 0, sequence, 0, sequence.context);
          const alone = sequences.map((sequence) => attend(ops, cache, 0, heads, [sequence]));
          return { together: attend(ops, cache, 0, heads, sequences), alone };
        });
      };
      const [a, b] = [run(one), run(two)];
      expect(a.alone.reduce((sum, rows) => sum + rows.length, 0)).toBe(37 * width);
      expect(Float32Array.from(a.alone.flatMap((rows) => [...rows]))).toEqual(a.together);
      expect(b).toEqual(a);
    });
  });

  describe.each(dtypes)('in %s', (dtype) => {
    const cols = 333;
    const vector = new Random(4).floats(cols);
    const rowOps: Readonly<Record<string, (ops: Ops, x: Tensor) => Tensor>> = {
      rmsNorm: (ops, x) => ops.rmsNorm(x, ops.makeVector(vector), 1e-6, dtype),
      'rmsNorm of groups': (ops, x) => ops.rmsNorm(x, ops.makeVector(vector), 1e-6, dtype, 9),
      layerNorm: (ops, x) => ops.layerNorm(x, ops.makeVector(vector), ops.makeVector(vector), 1e-6, dtype),
      activate: (ops, x) => ops.activate(x, 'gelu', dtype),
      xielu: (ops, x) => ops.xielu(x, { positive: 0.7, negative: 1.3, linear: 0.5, least: -1e-6 }, dtype),
    };
    it.each(Object.keys(rowOps))('are the same from %s in any batch', (name) => {
      const x = new Random(5).floats(ROWS * cols);
      const compute = (ops: Ops, rows: number): Float32Array =>
        ops.scope(() =>
          ops.read(rowOps[name]!(ops, ops.tensor(x.subarray(0, rows * cols), rows, cols, 'f32'))),
        );
      const whole = compute(two, ROWS);
      for (const rows of [1, 16, ROWS]) expect(compute(one, rows)).toEqual(whole.slice(0, rows * cols));
    });
  });
});
