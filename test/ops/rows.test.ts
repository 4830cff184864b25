// Ops on single rows of the native backend against their definition.

import { afterAll, expect, it } from 'vitest';
import type { Ops, RopeHeads, StepArrays } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, narrow, plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  BF16_ROUNDING,
  describeEachIsa,
  dtypes,
  expectClose,
  formats,
  openCpu,
  Random,
} from './native-backends.ts';
import { beginStep, beginStepAt } from './steps.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

/** A weight [n, k] that is stored as [k, n]. */
function turnedPart(tensor: TensorSource, shape: readonly [number, number]): LinearPart {
  return { weight: { kind: 'transposed', shape, tensor }, bias: null };
}

const WIDTHS = [1, 2, 8, 15, 16, 17, 32, 63, 100, 256, 897];

describeEachIsa('row ops', (isa) => {
  const cpu = openCpu(isa);
  const reference = new ReferenceOps();
  afterAll(() => cpu.close());

  const both = (compute: (ops: Ops) => Float32Array): [Float32Array, Float32Array] => [
    cpu.scope(() => compute(cpu)),
    reference.scope(() => compute(reference)),
  ];

  it.each(dtypes)('rmsNorm normalises rows into %s', (dtype) => {
    const random = new Random(1);
    for (const cols of WIDTHS) {
      const rows = random.integer(1, 40);
      const [x, weight] = [random.floats(rows * cols), random.floats(cols)];
      const [actual, expected] = both((ops) =>
        ops.read(ops.rmsNorm(ops.tensor(x, rows, cols, 'f32'), ops.makeVector(weight), 1e-5, dtype)),
      );
      // Two roundings of the factor and one of each product, and the sum of squares.
      expectClose(actual, expected, {
        absolute: 1e-9,
        relative: dtype === 'bf16' ? BF16_ROUNDING : 2e-6,
      });
    }
  });

  it.each(dtypes)('rmsNorm normalises groups of columns each by itself into %s', (dtype) => {
    const random = new Random(12);
    for (const [width, groups] of [
      [1, 3],
      [16, 2],
      [17, 8],
    ] as const) {
      const [rows, cols] = [random.integer(1, 40), width * groups];
      const [x, weight] = [random.floats(rows * cols), random.floats(cols)];
      const [actual, expected] = both((ops) =>
        ops.read(ops.rmsNorm(ops.tensor(x, rows, cols, 'f32'), ops.makeVector(weight), 1e-5, dtype, groups)),
      );
      expectClose(actual, expected, {
        absolute: 1e-9,
        relative: dtype === 'bf16' ? BF16_ROUNDING : 2e-6,
      });
    }
    for (const ops of [cpu, reference]) {
      const x = ops.tensor(new Float32Array(8), 1, 8, 'f32');
      expect(() => ops.rmsNorm(x, ops.makeVector(new Float32Array(8)), 0, dtype, 3)).toThrow(
        /3 groups of one size, got 8/,
      );
    }
  });

  it.each(dtypes)(
    'layerNorm brings rows to mean 0 and variance 1 into %s, then scales and shifts them',
    (dtype) => {
      const random = new Random(11);
      for (const cols of WIDTHS.filter((width) => width > 1)) {
        const rows = random.integer(1, 40);
        // Far from 0, where the mean of the squares would say little of the variance.
        const x = random.floats(rows * cols).map((value) => value + 100);
        const [weight, bias] = [random.floats(cols), random.floats(cols)];
        for (const shift of [bias, null]) {
          const [actual, expected] = both((ops) => {
            const whole = ops.tensor(x, rows, cols, 'f32');
            const bias = shift && ops.makeVector(shift);
            return ops.read(ops.layerNorm(whole, ops.makeVector(weight), bias, 1e-5, dtype));
          });
          expectClose(actual, expected, {
            absolute: 2e-4,
            // An error just before the rounding may make it fall the other way.
            relative: dtype === 'bf16' ? 2 * BF16_ROUNDING : 1e-5,
          });
        }
      }
    },
  );

  it('layerNormInPlace leaves the numbers of layerNorm in its argument', () => {
    const random = new Random(12);
    const [x, weight, bias] = [random.floats(9 * 100), random.floats(100), random.floats(100)];
    for (const ops of [cpu, reference]) {
      ops.scope(() => {
        const vectors = [ops.makeVector(weight), ops.makeVector(bias)] as const;
        const changed = ops.tensor(x, 9, 100, 'f32');
        const made = ops.layerNorm(changed, ...vectors, 1e-5, 'f32');
        ops.layerNormInPlace(changed, ...vectors, 1e-5);
        expect(ops.read(changed)).toEqual(ops.read(made));
      });
    }
  });

  it('meanRows sums the rows of each range in their order and divides by their number', () => {
    const random = new Random(13);
    for (const cols of WIDTHS) {
      const x = random.floats(40 * cols);
      const starts = Int32Array.of(2, 3, 20, 37);
      const [actual, expected] = both((ops) =>
        ops.read(ops.meanRows(ops.tensor(x, 40, cols, 'f32'), starts)),
      );
      expectClose(actual, expected, { absolute: 1e-6 });
      const alone = cpu.scope(() =>
        cpu.read(
          cpu.meanRows(cpu.tensor(x.slice(3 * cols, 20 * cols), 17, cols, 'f32'), Int32Array.of(0, 17)),
        ),
      );
      expect(alone).toEqual(actual.slice(cols, 2 * cols));
    }
    const x = random.floats(8);
    for (const ops of [cpu, reference]) {
      for (const starts of [[0, 5], [1, 1], [2, 1], [-1, 2], []]) {
        const mean = () => ops.scope(() => ops.meanRows(ops.tensor(x, 4, 2, 'f32'), Int32Array.from(starts)));
        expect(mean).toThrow(/meanRows: expected/);
      }
    }
  });

  it.each(dtypes)('readLater gives the numbers that a %s tensor has in its turn', (dtype) => {
    const x = new Random(14).floats(5 * 33);
    for (const ops of [cpu, reference]) {
      const [later, now] = ops.scope(() => {
        const tensor = ops.tensor(x, 5, 33, dtype);
        return [ops.readLater(tensor), ops.read(tensor)];
      });
      ops.scope(() => ops.tensor(new Float32Array(5 * 33), 5, 33, dtype));
      expect(later.read()).toEqual(now);
    }
  });

  it('qkNorm normalises each head of a view by itself', () => {
    const random = new Random(2);
    for (const headDim of [8, 16, 24, 80, 128]) {
      const x = random.floats(5 * (3 * headDim + 7));
      const weight = random.floats(headDim);
      const [actual, expected] = both((ops) => {
        const whole = ops.tensor(x, 5, 3 * headDim + 7, 'f32');
        const [, heads] = ops.split(whole, [7, 3 * headDim]);
        ops.qkNorm(heads!, ops.makeVector(weight), 1e-6);
        return ops.read(whole);
      });
      expectClose(actual, expected, { absolute: 1e-9, relative: 2e-6 });
    }
  });

  it('headLayerNorm brings each head of a view to mean 0 and variance 1, with a weight of its own', () => {
    const random = new Random(12);
    for (const headDim of [8, 16, 24, 80, 128]) {
      const x = random.floats(5 * (3 * headDim + 7)).map((value) => value + 10);
      const weight = random.floats(3 * headDim);
      const [actual, expected] = both((ops) => {
        const whole = ops.tensor(x, 5, 3 * headDim + 7, 'f32');
        const [, heads] = ops.split(whole, [7, 3 * headDim]);
        ops.headLayerNorm(heads!, ops.makeVector(weight), headDim, 1e-5);
        return ops.read(whole);
      });
      expectClose(actual, expected, { absolute: 2e-5, relative: 1e-5 });
    }
  });

  it('rope rotates each head of a view by its position', () => {
    const random = new Random(3);
    for (const headDim of [2, 8, 24, 64, 80, 128]) {
      const rows = 9;
      const x = random.floats(rows * (2 * headDim + 5));
      const table = random.floats(50 * headDim);
      const positions = Int32Array.from({ length: rows }, () => random.integer(0, 49));
      const [actual, expected] = both((ops) => {
        const whole = ops.tensor(x, rows, 2 * headDim + 5, 'f32');
        const [heads] = ops.split(whole, [2 * headDim, 5]);
        ops.rope(heads!, beginStepAt(ops, positions), ops.makeVector(table), { headDim });
        return ops.read(whole);
      });
      expectClose(actual, expected, { absolute: 3e-7 });
    }
  });

  it('rope turns neighbours against each other where they are pairs', () => {
    const random = new Random(12);
    for (const [headDim, rotaryDim] of [
      [2, 2],
      [8, 4],
      [64, 64],
      [80, 34],
    ] as const) {
      const x = random.floats(6 * (3 * headDim + 1));
      const table = random.floats(10 * rotaryDim);
      const positions = Int32Array.from({ length: 6 }, () => random.integer(0, 9));
      const [actual, expected] = both((ops) => {
        const whole = ops.tensor(x, 6, 3 * headDim + 1, 'f32');
        const heads = { headDim, rotaryDim, isInterleaved: true };
        ops.rope(
          ops.split(whole, [1, 3 * headDim])[1]!,
          beginStepAt(ops, positions),
          ops.makeVector(table),
          heads,
        );
        return ops.read(whole);
      });
      expectClose(actual, expected, { absolute: 3e-7 });
      expect(actual).not.toEqual(x);
    }
  });

  // What each of 16 pairs turns by.
  it.each([
    [{ lines: 5, columns: 4, alternate: true }, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0, 0]],
    [{ lines: 3, columns: 4, alternate: false }, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]],
    [{ lines: 8, columns: 8, alternate: false }, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]],
  ])('rope turns pairs by position, line and column: %o', (sections, planes) => {
    const random = new Random(13);
    const [headDim, rows] = [40, 5];
    const x = random.floats(rows * 2 * headDim);
    const table = random.floats(20 * 32);
    const places = Array.from({ length: 3 }, () =>
      Int32Array.from({ length: rows }, () => random.integer(0, 19)),
    );
    const heads = { headDim, first: 6, rotaryDim: 32 };
    const turnedBy = (ops: Ops, given: Partial<StepArrays>, own: RopeHeads) => {
      const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, headDim: 2, dtype: 'f32' } as const;
      const input = ops.tensor(x, rows, 2 * headDim, 'f32');
      ops.rope(input, beginStep(ops, ops.makeKvCache(shape), rows, given), ops.makeVector(table), own);
      return ops.read(input);
    };
    const [actual, expected] = both((ops) => {
      const planePositions = Int32Array.of(...places[1]!, ...places[2]!);
      return turnedBy(ops, { positions: places[0]!, planePositions }, { ...heads, sections });
    });
    const alone = places.map((positions) => turnedBy(reference, { positions }, heads));
    const byDefinition = x.map((number, i) => {
      const place = (i % headDim) - 6;
      if (place < 0 || place >= 32) return number;
      return alone[planes[place % 16]!]![i]!;
    });
    expect(expected).toEqual(byDefinition);
    expectClose(actual, expected, { absolute: 3e-7 });
  });

  it('rope leaves what lies before and behind the rotated part of a head as it is', () => {
    const random = new Random(8);
    for (const [headDim, rotaryDim, first] of [
      [8, 4, 0],
      [64, 32, 0],
      [80, 20, 13],
      [64, 2, 62],
    ] as const) {
      const x = random.floats(6 * 3 * headDim);
      const table = random.floats(10 * rotaryDim);
      const positions = Int32Array.from({ length: 6 }, () => random.integer(0, 9));
      const [actual, expected] = both((ops) => {
        const heads = ops.tensor(x, 6, 3 * headDim, 'f32');
        ops.rope(heads, beginStepAt(ops, positions), ops.makeVector(table), { headDim, first, rotaryDim });
        return ops.read(heads);
      });
      expectClose(actual, expected, { absolute: 3e-7 });
      const isOutside = (_: number, i: number): boolean =>
        i % headDim < first || i % headDim >= first + rotaryDim;
      expect(actual.filter(isOutside)).toEqual(x.filter(isOutside));
      expect(actual).not.toEqual(x);
    }
  });

  it.each(['f32', 'f16', 'bf16'] as const)('embedding reads rows of a %s weight exactly', (stored) => {
    const random = new Random(4);
    for (const [hidden, format] of [1, 17, 64, 100].flatMap((k) =>
      formats.map((name) => [k, name] as const),
    )) {
      const weight = folder.write([40, hidden], random.floats(40 * hidden), stored);
      const ids = Int32Array.from({ length: 30 }, () => random.integer(0, 39));
      const [actual, expected] = both((ops) => {
        const table = ops.loadLinear([plainPart(weight)], format);
        return ops.read(ops.embedding({ ids, sampled: null }, table));
      });
      expect(actual).toEqual(expected);
    }
  });

  it.each(['f32', 'f16', 'bf16'] as const)(
    'a %s weight that is stored transposed is the same weight',
    (stored) => {
      const random = new Random(13);
      const [n, k] = [37, 50];
      const values = random.floats(n * k);
      const turned = values.map((_, i) => values[(i % n) * k + Math.floor(i / n)]!);
      const [rows, columns] = [folder.write([n, k], values, stored), folder.write([k, n], turned, stored)];
      for (const format of formats) {
        for (const ops of [cpu, reference]) {
          const read = (part: LinearPart): Float32Array =>
            ops.scope(() => {
              const weight = ops.loadLinear([part], format);
              const ids = Int32Array.from({ length: weight.n }, (_, id) => id);
              return ops.read(ops.embedding({ ids, sampled: null }, weight));
            });
          expect(read(turnedPart(columns, [n, k]))).toEqual(read(plainPart(rows)));
          const [some, same] = [narrow(columns, 1, 9, 20), narrow(rows, 0, 9, 20)];
          expect(read(turnedPart(some, [20, k]))).toEqual(read(plainPart(same)));
        }
      }
    },
  );

  it.each(['f32', 'f16', 'bf16'] as const)('loadVector reads %s numbers, also tiny ones', (stored) => {
    const values = [0, -0, 1, -2.5, 2 ** -14, 65504, 2.71, ...new Random(5).floats(30)];
    const source = folder.write([values.length], values, stored);
    const ones = new Float32Array(values.length).fill(1);
    // A row whose mean square is 1 leaves the weight as it is, but for the rounding of the root.
    const [actual, expected] = both((ops) =>
      ops.read(ops.rmsNorm(ops.tensor(ones, 1, ones.length, 'f32'), ops.loadVector(source), 0, 'f32')),
    );
    expectClose(actual, expected, { absolute: 0, relative: 2e-7 });
  });

  it.each(dtypes)('gatherRows, split, tensor and read move %s numbers without a change', (dtype) => {
    const random = new Random(6);
    for (const cols of [1, 30, 65]) {
      const x = random.floats(20 * (cols + 3), dtype);
      const rows = Int32Array.from({ length: 12 }, () => random.integer(0, 19));
      const [actual, expected] = both((ops) => {
        const [, right] = ops.split(ops.tensor(x, 20, cols + 3, dtype), [3, cols]);
        return ops.read(ops.gatherRows(right!, rows));
      });
      expect(actual).toEqual(expected);
    }
  });

  it('tensor rounds to the nearest bf16, ties to even', () => {
    const ties = [1 + 2 ** -8, 1 + 3 * 2 ** -8, -(1 + 2 ** -8), 1 + 2 ** -8 + 2 ** -20, 3e38, Number.NaN];
    const values = Float32Array.from([...ties, ...new Random(7).floats(100)]);
    const [actual, expected] = both((ops) => ops.read(ops.tensor(values, 1, values.length, 'bf16')));
    expect(actual).toEqual(expected);
  });
});
