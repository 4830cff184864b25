// Ops on streams side by side of the native backend, and what closes most gates of a row, against their definition.

import { afterAll, expect, it } from 'vitest';
import { MOST_STREAMS, type Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { describeEachIsa, dtypes, expectClose, openCpu, Random } from './native-backends.ts';

const WIDTHS = [1, 2, 15, 16, 17, 48, 100, 897];
const ROWS = 37;

describeEachIsa('ops on streams', (isa) => {
  const cpu = openCpu(isa);
  const reference = new ReferenceOps();
  afterAll(() => cpu.close());

  /** Of the backend and of the definition; rows alone have the bits that they have among others. */
  const both = (cols: number, compute: (ops: Ops, first: number, rows: number) => Float32Array) => {
    const [actual, expected] = [cpu, reference].map((ops) => ops.scope(() => compute(ops, 0, ROWS)));
    for (const row of [0, 3, ROWS - 1]) {
      const alone = cpu.scope(() => compute(cpu, row, 1));
      expect(alone).toEqual(actual!.slice(row * cols, (row + 1) * cols));
    }
    return [actual!, expected!] as const;
  };

  it.each(dtypes)('scaleColumns gives each column its factor, into %s', (dtype) => {
    const random = new Random(1);
    for (const cols of WIDTHS) {
      const [x, factors] = [random.floats(ROWS * cols), random.floats(cols)];
      const [actual, expected] = both(cols, (ops, first, rows) => {
        const input = ops.tensor(x.slice(first * cols, (first + rows) * cols), rows, cols, 'f32');
        return ops.read(ops.scaleColumns(input, ops.makeVector(factors), dtype));
      });
      expect(actual).toEqual(expected);
    }
  });

  it('sparsify leaves of a row, through a view, what is far above its mean', () => {
    const random = new Random(2);
    for (const cols of WIDTHS) {
      // Far from 0, where the mean of the squares would say little of the deviation.
      const x = random.floats(ROWS * (cols + 1)).map((value) => value + 50);
      for (const deviations of [-0.25, 0.5, 1.6]) {
        const [actual, expected] = both(cols + 1, (ops, first, rows) => {
          const whole = ops.tensor(
            x.slice(first * (cols + 1), (first + rows) * (cols + 1)),
            rows,
            cols + 1,
            'f32',
          );
          ops.sparsify(ops.split(whole, [1, cols])[1]!, deviations);
          return ops.read(whole);
        });
        expectClose(actual, expected, { absolute: 5e-5 });
        expect(actual.every((value) => value >= 0)).toBe(true);
      }
    }
  });

  it('sparsify leaves no number of a row with one that is none', () => {
    for (const ops of [cpu, reference]) {
      ops.scope(() => {
        const x = ops.tensor(Float32Array.of(1, Number.NaN, 3, 1, 2, 9), 2, 3, 'f32');
        ops.sparsify(x, 1);
        expect([...ops.read(x)].map(Number.isNaN)).toEqual([true, true, true, false, false, false]);
      });
    }
  });

  it.each([1, 3])('joinStreams brings %i others to the magnitude of the first', (count) => {
    const random = new Random(3);
    for (const width of WIDTHS) {
      const x = random.floats(ROWS * width);
      // Rows of some are smaller than the least.
      const others = random
        .floats(ROWS * count * width)
        .map((value, i) => (i % 3 === 0 ? value * 30 : value));
      const [actual, expected] = both((count + 1) * width, (ops, first, rows) => {
        const of = (numbers: Float32Array, cols: number) =>
          ops.tensor(numbers.slice(first * cols, (first + rows) * cols), rows, cols, 'f32');
        return ops.read(ops.joinStreams(of(x, width), of(others, count * width), 0.1));
      });
      expectClose(actual, expected, { absolute: 1e-9, relative: 3e-6 });
    }
  });

  it.each([
    [4, 4, true],
    [1, 4, false],
    [MOST_STREAMS, 3, false],
    [2, MOST_STREAMS, false],
  ])('addMixed adds mixes of %i streams to %i; of the residual itself: %s', (inputs, outputs, isInPlace) => {
    const random = new Random(4);
    for (const width of WIDTHS) {
      const [numbers, coefficients] = [random.floats(ROWS * 5), random.floats(outputs * inputs * 5)];
      const [before, x] = [random.floats(ROWS * outputs * width), random.floats(ROWS * inputs * width)];
      const [actual, expected] = both(outputs * width, (ops, first, rows) => {
        const of = (all: Float32Array, cols: number) =>
          ops.tensor(all.slice(first * cols, (first + rows) * cols), rows, cols, 'f32');
        const sum = of(before, outputs * width);
        ops.addMixed(sum, isInPlace ? sum : of(x, inputs * width), of(numbers, 5), {
          width,
          coefficients: ops.makeVector(coefficients),
          offset: 0.5,
        });
        return ops.read(sum);
      });
      expectClose(actual, expected, { absolute: 2e-5 });
    }
  });

  it('refuse what they cannot compute, and say what they expected', () => {
    for (const ops of [cpu, reference]) {
      ops.scope(() => {
        const tensor = (cols: number) => ops.tensor(new Float32Array(cols), 1, cols, 'f32');
        const mix = (width: number, count: number) => {
          return { width, coefficients: ops.makeVector(new Float32Array(count)), offset: 0 };
        };
        expect(() => ops.scaleColumns(tensor(2), ops.makeVector(new Float32Array(3)), 'f32')).toThrow(
          /scaleColumns: expected/,
        );
        expect(() => ops.joinStreams(tensor(2), tensor(3), 1)).toThrow(
          /joinStreams: expected others in streams of 2, got 3 columns/,
        );
        expect(() => ops.joinStreams(tensor(2), tensor(4), 0)).toThrow(
          /joinStreams: expected a least mean above 0, got 0/,
        );
        expect(() => ops.addMixed(tensor(4), tensor(5), tensor(1), mix(2, 4))).toThrow(
          /addMixed: expected x of 1 to 8 streams of 2, got 5 columns/,
        );
        expect(() => ops.addMixed(tensor(18), tensor(4), tensor(1), mix(2, 18))).toThrow(
          /addMixed: expected residual of 1 to 8 streams of 2, got 18 columns/,
        );
        expect(() => ops.addMixed(tensor(4), tensor(4), tensor(3), mix(2, 4))).toThrow(
          /addMixed: expected 12 coefficients, got 4/,
        );
      });
    }
  });
});
