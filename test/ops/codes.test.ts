// Weights of codes have the bits of the numbers that they encode, on every instruction set; where those are not rounded, what is next to
// the sums of them.

import { afterAll, describe, expect, it } from 'vitest';
import { formatName } from '../../src/ops/dtype.ts';
import { roundToBf16 } from '../../src/ops/float-formats.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, openCpu, Random, takesUnrounded } from './native-backends.ts';
import { CODE_FORMATS, decoded, encoded, randomCodes } from './random-codes.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const ROWS = [1, 3, 13, 16, 17, 60, 193];
const SHAPES = [
  [31, [7]],
  [300, [33, 48, 5]],
  [608, [20]],
  [1600, [4]],
] as const;

/**
 * The sums x [rows, k] · weight [n, k], and how far another may be away: half a unit of fixed point for each number of 32, and what sums
 * of floats lose.
 */
function sumsOf(
  x: Float32Array,
  weight: Float32Array,
  rows: number,
  k: number,
): { sum: number; most: number }[] {
  const n = weight.length / k;
  return Array.from({ length: rows * n }, (_, at) => {
    const [row, column] = [Math.floor(at / n), at % n];
    let [sum, most] = [0, 1e-30];
    for (let begin = 0; begin < k; begin += 32) {
      let [largest, weights] = [0, 0];
      for (let i = begin; i < Math.min(begin + 32, k); i += 1) {
        const [number, factor] = [x[row * k + i]!, weight[column * k + i]!];
        sum += number * factor;
        largest = Math.max(largest, Math.abs(number));
        weights += Math.abs(factor);
      }
      most += largest * (2 ** -15 * weights + 2 ** -20 * k);
    }
    return { sum, most };
  });
}

describeEachIsa('weights of codes', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());

  describe.each(CODE_FORMATS.map((format) => [formatName(format), format] as const))('of %s', (_, format) => {
    const isUnrounded = takesUnrounded(isa, format);

    if (isUnrounded) {
      it('give the sums of the numbers that they encode, which are not rounded', () => {
        const random = new Random(1);
        for (const [k, sizes] of SHAPES) {
          const codes = sizes.map((n) => randomCodes(folder, random, format, n, k));
          const weight = Float32Array.from(codes.flatMap((source) => [...encoded(source)]));
          const coded = cpu.loadLinear(
            codes.map((source) => ({ weight: source, bias: null })),
            format,
          );
          for (const rows of ROWS) {
            // From the smallest numbers to the largest, and blocks of zeros.
            const x = random
              .floats(rows * k)
              .map((value, i) => (i % 96 < 32 ? 0 : value * 10 ** ((i % 11) - 9)));
            roundToBf16(x);
            const product = (of: Float32Array): Float32Array =>
              cpu.scope(() => cpu.read(cpu.linear(cpu.tensor(of, of.length / k, k, 'bf16'), coded)));
            const actual = product(x);
            const last = (rows - 1) * coded.n;
            expect(actual.subarray(last)).toEqual(product(x.subarray((rows - 1) * k)));
            const expected = sumsOf(x, weight, rows, k);
            for (const [i, { sum, most }] of expected.entries()) {
              expect(Math.abs(actual[i]! - sum)).toBeLessThanOrEqual(most);
            }
          }
        }
      });
    }

    // Rows are in fixed point there, but for numbers of e4m3.
    if (isUnrounded && format.kind !== 'fp8') {
      it('have no numbers in rows that hold one that is not finite', () => {
        const [rows, n, k] = [7, 20, 96];
        const weight = cpu.loadLinear(
          [{ weight: randomCodes(folder, new Random(3), format, n, k), bias: null }],
          format,
        );
        const x = new Random(4).floats(rows * k, 'bf16');
        const product = () => cpu.scope(() => cpu.read(cpu.linear(cpu.tensor(x, rows, k, 'bf16'), weight)));
        const whole = product();
        x[1 * k + 40] = Number.NaN;
        x[4 * k + 95] = Number.NEGATIVE_INFINITY;
        const broken = product();
        for (let row = 0; row < rows; row += 1) {
          const numbers = broken.subarray(row * n, (row + 1) * n);
          if (row === 1 || row === 4) expect(numbers.every(Number.isNaN)).toBe(true);
          else expect(numbers).toEqual(whole.subarray(row * n, (row + 1) * n));
        }
      });
    }

    if (!isUnrounded) {
      it('have the bits of the bfloat16 numbers that they encode in every product', () => {
        const random = new Random(1);
        for (const [k, sizes] of SHAPES) {
          const codes = sizes.map((n) => randomCodes(folder, random, format, n, k));
          const bias = folder.write([sizes[0]], random.floats(sizes[0]));
          const coded = codes.map((weight, i) => ({ weight, bias: i === 0 ? bias : null }));
          const plain = codes.map((weight, i) => ({
            ...decoded(folder, weight),
            bias: i === 0 ? bias : null,
          }));
          const [asCodes, asNumbers] = [
            { linear: cpu.loadLinear(coded, format), gateUp: cpu.loadGateUp(coded[0]!, coded[0]!, format) },
            { linear: cpu.loadLinear(plain, 'bf16'), gateUp: cpu.loadGateUp(plain[0]!, plain[0]!, 'bf16') },
          ];
          for (const rows of ROWS) {
            const x = random.floats(rows * k);
            const compute = (ops: Ops, { linear, gateUp }: typeof asCodes): Float32Array[] =>
              ops.scope(() => {
                const input = ops.tensor(x, rows, k, 'bf16');
                const sum = ops.tensor(new Float32Array(rows * linear.n).fill(0.5), rows, linear.n, 'f32');
                ops.addLinear(sum, input, linear);
                return [ops.linear(input, linear), sum, ops.gateUp(input, gateUp, 'silu')].map((out) =>
                  ops.read(out),
                );
              });
            expect(compute(cpu, asCodes)).toEqual(compute(cpu, asNumbers));
          }
        }
      });
    }

    it('take about the bytes of their codes', () => {
      const { byteLength } = cpu.loadLinear(
        [{ weight: randomCodes(folder, new Random(2), format, 64, 512), bias: null }],
        format,
      );
      const groups = format.groupSize === null ? 1 : 512 / format.groupSize;
      const bits = format.kind === 'int4' || format.kind === 'fp4' ? 4 : 8;
      expect(byteLength).toBe((64 * 512 * bits) / 8 + 64 * groups * 4 * (format.hasZeros ? 2 : 1));
    });
  });
});
