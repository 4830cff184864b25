// Activations and other ops on single numbers of the native backend against their definition.

import { afterAll, describe, expect, it } from 'vitest';
import type { Activation } from '../../src/ops/activation.ts';
import { inputDTypeOf } from '../../src/ops/dtype.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  BF16_ROUNDING,
  describeEachIsa,
  dtypes,
  expectClose,
  formats,
  openCpu,
  Random,
  takesUnrounded,
} from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const ACTIVATIONS: readonly Activation[] = ['silu', 'gelu', 'gelu_tanh', 'relu', 'relu2'];
const WIDTHS = [1, 15, 16, 17, 63, 897];
const ROWS = 7;

describeEachIsa('ops on single numbers', (isa) => {
  const cpu = openCpu(isa);
  const reference = new ReferenceOps();
  afterAll(() => cpu.close());

  const both = (compute: (ops: Ops) => Float32Array): [Float32Array, Float32Array] => [
    cpu.scope(() => compute(cpu)),
    reference.scope(() => compute(reference)),
  ];

  describe.each(dtypes)('into %s', (dtype) => {
    it.each(ACTIVATIONS)(
      '%s is that of its definition, from the smallest numbers to the largest',
      (activation) => {
        const random = new Random(1);
        for (const cols of WIDTHS) {
          const x = random.floats(ROWS * cols).map((value, i) => value * 10 ** ((i % 6) - 4));
          const [actual, expected] = both((ops) =>
            ops.read(ops.activate(ops.tensor(x, ROWS, cols, 'f32'), activation, dtype)),
          );
          expectClose(actual, expected, {
            absolute: 4e-7,
            relative: dtype === 'bf16' ? BF16_ROUNDING : 1e-6,
          });
        }
      },
    );

    it.each(ACTIVATIONS)(
      '%s of numbers whose exponential is beyond all floats is its limit',
      (activation) => {
        const x = Float32Array.from([20, 87, 88, 89, 127, 1e4, 1e18].flatMap((size) => [size, -size]));
        const [actual, expected] = both((ops) =>
          ops.read(ops.activate(ops.tensor(x, 1, x.length, 'f32'), activation, dtype)),
        );
        expectClose(actual, expected, {
          absolute: 4e-7,
          relative: dtype === 'bf16' ? BF16_ROUNDING : 1e-6,
        });
      },
    );

    it('xielu is that of its definition, from the smallest numbers to the largest', () => {
      const random = new Random(8);
      // Not 0 below 0, where the two summands would cancel.
      const factors = { positive: 0.7, negative: 0.4, linear: 0.5, least: -1e-6 };
      const sizes = [1e-30, 1e-7, 1e-6, 0.3, 1, 20, 87, 88, 1e4, 1e18].flatMap((size) => [size, -size]);
      for (const cols of WIDTHS) {
        const x = random.floats(ROWS * cols).map((value, i) => value * 10 ** ((i % 9) - 7));
        x.set(sizes.slice(0, x.length));
        const [actual, expected] = both((ops) =>
          ops.read(ops.xielu(ops.tensor(x, ROWS, cols, 'f32'), factors, dtype)),
        );
        expectClose(actual, expected, { absolute: 0, relative: dtype === 'bf16' ? BF16_ROUNDING : 2e-6 });
      }
      const broken = cpu.scope(() =>
        cpu.read(cpu.xielu(cpu.tensor(Float32Array.of(NaN), 1, 1, 'f32'), factors, dtype)),
      );
      expect(broken).toEqual(Float32Array.of(NaN));
    });

    it('cast widens what it has rounded, and copies what need not be changed', () => {
      const x = new Random(7).floats(ROWS * 37);
      const [actual, expected] = both((ops) => {
        const rounded = ops.cast(ops.tensor(x, ROWS, 37, 'f32'), dtype);
        const numbers = ops.read(rounded);
        expect(ops.read(ops.cast(rounded, 'f32'))).toEqual(numbers);
        expect(ops.read(ops.cast(rounded, dtype))).toEqual(numbers);
        return numbers;
      });
      expect(actual).toEqual(expected);
    });

    it('cast rounds, and leaves zeros behind a row that is multiplied next', () => {
      const random = new Random(2);
      for (const cols of WIDTHS) {
        const x = random.floats(ROWS * cols);
        const [actual, expected] = both((ops) => ops.read(ops.cast(ops.tensor(x, ROWS, cols, 'f32'), dtype)));
        expect(actual).toEqual(expected);
        const weight = folder.write([3, cols], random.floats(3 * cols));
        const [product, wanted] = both((ops) => {
          // What the memory held before is no number.
          ops.tensor(new Float32Array(64 * ROWS * 32).fill(Number.NaN), ROWS * 32, 64, 'f32');
          const h = ops.cast(ops.tensor(x, ROWS, cols, 'f32'), dtype);
          return ops.read(ops.linear(h, ops.loadLinear([plainPart(weight)], dtype)));
        });
        expectClose(product, wanted, { absolute: cols * 1e-6 });
      }
    });
  });

  const change = (x: Float32Array, cols: number, by: (ops: Ops, tensor: Tensor) => void) =>
    both((ops) => {
      const whole = ops.tensor(x, ROWS, cols, 'f32');
      by(ops, ops.split(whole, [1, cols - 1])[1]!);
      return ops.read(whole);
    });

  it('addScaled, scale, softcap and clip change the numbers of a view in place, and no others', () => {
    const random = new Random(3);
    for (const cols of [2, 17, 34, 300]) {
      const x = random.floats(ROWS * cols).map((value) => value * 20);
      const added = random.floats(ROWS * (cols - 1));
      for (const factor of [1, 0.3]) {
        const [actual, expected] = change(x, cols, (ops, view) =>
          ops.addScaled(view, ops.tensor(added, ROWS, cols - 1, 'f32'), factor),
        );
        expect(actual).toEqual(expected);
      }
      const [scaled, wanted] = change(x, cols, (ops, view) => ops.scale(view, 1.7));
      expect(scaled).toEqual(wanted);
      const [capped, bounded] = change(x, cols, (ops, view) => ops.softcap(view, 5));
      expectClose(capped, bounded, { absolute: 0, relative: 5e-7 });
      expect(capped.every((value, i) => i % cols === 0 || Math.abs(value) <= 5)).toBe(true);
      x[cols - 1] = Number.NaN;
      const [clipped, within] = change(x, cols, (ops, view) => ops.clip(view, -3, 5));
      expect(clipped).toEqual(within);
      expect(clipped).toEqual(
        x.map((value, i) => (i % cols === 0 ? value : Math.max(-3, Math.min(value, 5)))),
      );
    }
  });

  it.each(formats)('gateUp with weights of %s takes every activation', (format) => {
    const random = new Random(4);
    const [n, k] = [37, 64];
    const [gate, up] = [0, 1].map(() => plainPart(folder.write([n, k], random.floats(n * k))));
    for (const rows of [1, 40]) {
      const x = random.floats(rows * k, 'bf16');
      const answers = ACTIVATIONS.map((activation) => {
        const [actual, expected] = both((ops) => {
          const weight = ops.loadGateUp(gate!, up!, format);
          return ops.read(
            ops.gateUp(ops.tensor(x, rows, k, inputDTypeOf(format, 'bf16')), weight, activation),
          );
        });
        const relative = inputDTypeOf(format, 'bf16') === 'bf16' ? BF16_ROUNDING : 1e-5;
        const isUnrounded = takesUnrounded(isa, format);
        const size = Math.hypot(...expected) / Math.sqrt(expected.length);
        expectClose(actual, expected, { absolute: isUnrounded ? size * 2 ** -4 : 1e-4, relative });
        return actual;
      });
      expect(answers[0]).not.toEqual(answers[1]);
      expect(answers[1]).not.toEqual(answers[2]);
    }
  });

  it('refuses what it cannot compute, and says what it expected', () => {
    for (const ops of [cpu, reference]) {
      ops.scope(() => {
        const x = ops.tensor(Float32Array.of(1, 2), 1, 2, 'f32');
        const wide = ops.tensor(Float32Array.of(1, 2, 3), 1, 3, 'f32');
        expect(() => ops.softcap(x, 0)).toThrow(/softcap: expected a cap above 0/);
        expect(() => ops.clip(x, 1, 0)).toThrow(/clip: expected a least number up to 0/);
        expect(() => ops.addScaled(x, wide, 1)).toThrow(/addScaled: expected/);
        const [two, three] = [
          ops.makeVector(Float32Array.of(1, 2)),
          ops.makeVector(Float32Array.of(1, 2, 3)),
        ];
        expect(() => ops.layerNorm(x, two, three, 1e-5, 'f32')).toThrow(/layerNorm: expected/);
      });
    }
  });
});
