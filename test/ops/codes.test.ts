// Weights of codes have the bits of the numbers that they encode, on every instruction set.

import { afterAll, describe, expect, it } from 'vitest';
import { formatName } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, openCpu, Random } from './native-backends.ts';
import { CODE_FORMATS, decoded, randomCodes } from './random-codes.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const ROWS = [1, 3, 13, 16, 17, 60];

describeEachIsa('weights of codes', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());

  describe.each(CODE_FORMATS.map((format) => [formatName(format), format] as const))('of %s', (_, format) => {
    it('have the bits of the bfloat16 numbers that they encode in every product', () => {
      const random = new Random(1);
      for (const [k, sizes] of [
        [31, [7]],
        [300, [33, 48, 5]],
        [608, [20]],
        [1600, [4]],
      ] as const) {
        const codes = sizes.map((n) => randomCodes(folder, random, format, n, k));
        const bias = folder.write([sizes[0]], random.floats(sizes[0]));
        const coded = codes.map((weight, i) => ({ weight, bias: i === 0 ? bias : null }));
        const plain = codes.map((weight, i) => ({ ...decoded(folder, weight), bias: i === 0 ? bias : null }));
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
