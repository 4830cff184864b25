// Products of heads: each head by a weight of its own, against the definition and alone or among other rows.

import { afterAll, describe, expect, it } from 'vitest';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, narrow, plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, dtypes, expectClose, openCpu, Random, sumTolerance } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const [HEADS, N, K] = [5, 20, 24];

function parts(random: Random): LinearPart[] {
  return Array.from({ length: HEADS }, () => plainPart(folder.write([N, K], random.floats(N * K))));
}

describeEachIsa('headLinear', (isa) => {
  const [cpu, alone] = [openCpu(isa), openCpu(isa, 1)];
  const reference = new ReferenceOps();
  afterAll(() => {
    cpu.close();
    alone.close();
  });

  describe.each(dtypes)('in %s', (dtype) => {
    const weights = parts(new Random(1));
    const run = (ops: Ops, x: Float32Array, rows: number, keepsRest: boolean) => {
      const own = weights.map((part) => ops.loadLinear([part], dtype));
      return ops.scope(() =>
        ops.read(ops.headLinear(ops.tensor(x, rows, x.length / rows, 'f32'), own, keepsRest)),
      );
    };

    it.each([
      [24, false],
      [24, true],
      [31, false],
      [31, true],
    ])('multiplies heads of %i numbers, the rest kept: %s', (width, keepsRest) => {
      for (const rows of [1, 7, 130]) {
        const x = new Random(rows).floats(rows * HEADS * width);
        const [actual, expected] = [cpu, reference].map((ops) => run(ops, x, rows, keepsRest));
        expectClose(actual!, expected!, sumTolerance(K));
      }
    });

    it('gives a row the same bits in any batch and on any number of threads', () => {
      const width = HEADS * 30;
      const x = new Random(3).floats(100 * width);
      const whole = run(cpu, x, 100, true);
      expect(run(alone, x, 100, true)).toEqual(whole);
      for (const rows of [1, 2, 16, 17, 64, 65]) {
        expect(run(cpu, x.subarray(0, rows * width), rows, true)).toEqual(
          whole.slice(0, (whole.length / 100) * rows),
        );
      }
    });

    it('takes weights that are published as their columns', () => {
      const stored = folder.write([3 * K, N], new Random(4).floats(3 * K * N));
      const x = new Random(5).floats(2 * K);
      const [actual, expected] = [cpu, reference].map((ops) => {
        const tensor = narrow(stored, 0, K, K);
        const weight = ops.loadLinear(
          [{ weight: { kind: 'transposed', shape: [N, K], tensor }, bias: null }],
          dtype,
        );
        return ops.scope(() => ops.read(ops.linear(ops.tensor(x, 2, K, dtype), weight)));
      });
      expectClose(actual!, expected!, sumTolerance(K));
    });
  });

  it('refuses heads that are no whole ones, and weights of several shapes', () => {
    const own = parts(new Random(6)).map((part) => cpu.loadLinear([part], 'f32'));
    const other = cpu.loadLinear([plainPart(folder.write([N, 8], new Float32Array(N * 8)))], 'f32');
    const x = cpu.tensor(new Float32Array(2 * 121), 2, 121, 'f32');
    expect(() => cpu.headLinear(x, own, false)).toThrow(/5 heads of at least 24 numbers, got 121 numbers/);
    expect(() => cpu.headLinear(x, [...own, other], false)).toThrow(/weights \[20, 24\], got \[20, 8\]/);
    const quantized = [cpu.loadLinear(parts(new Random(7)), 'int8')];
    const wide = cpu.tensor(new Float32Array(48), 2, 24, 'f32');
    expect(() => cpu.headLinear(wide, quantized, false)).toThrow(/linear weights of floats/);
  });
});
