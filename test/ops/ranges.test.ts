// Rectangles of published tensors: what is loaded of a part is what the whole has there.

import { truncateSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError, ShapeError } from '../../src/errors.ts';
import type { StorageDType } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { narrow, plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, dtypes, openCpu, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const STORED: readonly StorageDType[] = ['f32', 'f16', 'bf16'];
const [ROWS, COLS] = [67, 150];
interface Range {
  readonly rows: readonly [start: number, length: number];
  readonly cols: readonly [start: number, length: number];
}

/** Inside one panel and over several, one number, whole rows, whole columns. */
const RECTANGLES: readonly Range[] = [
  { rows: [0, 67], cols: [0, 150] },
  { rows: [5, 40], cols: [0, 150] },
  { rows: [0, 67], cols: [75, 75] },
  { rows: [3, 13], cols: [7, 64] },
  { rows: [66, 1], cols: [149, 1] },
];

function rectangle(source: TensorSource, { rows, cols }: Range): TensorSource {
  return narrow(narrow(source, 0, rows[0], rows[1]), 1, cols[0], cols[1]);
}

function describeRanges(ops: Ops): void {
  it.each(STORED)('gives for a rectangle of a %s weight the numbers that the whole has there', (stored) => {
    const values = new Random(1).floats(ROWS * COLS);
    const whole = folder.write([ROWS, COLS], values, stored);
    for (const dtype of dtypes) {
      const all = numbersOf(ops, ops.loadLinear([plainPart(whole)], dtype));
      for (const range of RECTANGLES) {
        const { rows, cols } = range;
        const part = ops.loadLinear([plainPart(rectangle(whole, range))], dtype);
        expect([part.n, part.k]).toEqual([rows[1], cols[1]]);
        const expected = Array.from({ length: rows[1] }, (_, row) => {
          const start = (rows[0] + row) * COLS + cols[0];
          return [...all.subarray(start, start + cols[1])];
        });
        expect([...numbersOf(ops, part)]).toEqual(expected.flat());
      }
    }
  });

  it('multiplies by two halves of the rows, biases included, to the same bits as by the whole', () => {
    const random = new Random(2);
    const [weight, bias] = [
      folder.write([80, 33], random.floats(80 * 33)),
      folder.write([80], random.floats(80)),
    ];
    const half = (start: number) => plainPart(narrow(weight, 0, start, 40), narrow(bias, 0, start, 40));
    const x = random.floats(3 * 33);
    for (const dtype of dtypes) {
      const product = (parts: readonly ReturnType<typeof half>[]) =>
        ops.scope(() => [...ops.read(ops.linear(ops.tensor(x, 3, 33, dtype), ops.loadLinear(parts, dtype)))]);
      const whole = product([plainPart(weight, bias)]);
      expect(product([half(0), half(40)])).toEqual(whole);
      const upper = product([half(40)]);
      for (let row = 0; row < 3; row++) {
        expect(upper.slice(row * 40, row * 40 + 40)).toEqual(whole.slice(row * 80 + 40, row * 80 + 80));
      }
    }
  });

  it('names a number that is not finite by its place in the whole tensor, and passes over one outside', () => {
    const values = new Random(3).floats(ROWS * COLS);
    values[20 * COLS + 100] = Number.NaN;
    const weight = folder.write([ROWS, COLS], values);
    const load = (range: Range) => ops.loadLinear([plainPart(rectangle(weight, range))], 'f32');
    expect(() => load({ rows: [5, 40], cols: [75, 75] })).toThrow('is not finite at [20, 100]');
    expect(() => load({ rows: [3, 13], cols: [7, 64] })).not.toThrow();
    const bias = folder.write([9], [1, 2, 3, 4, 5, Number.NaN, 7, 8, 9]);
    expect(() => ops.loadVector(narrow(bias, 0, 4, 3))).toThrow('is not finite at [5]');
    expect(ops.loadVector(narrow(bias, 0, 6, 3)).length).toBe(3);
  });

  it('says that a file is cut off inside the rectangle', () => {
    const weight = folder.write([ROWS, COLS], new Random(4).floats(ROWS * COLS));
    truncateSync(weight.path, 5 + 4 * 30 * COLS);
    expect(() => ops.loadLinear([plainPart(narrow(weight, 0, 0, 30))], 'f32')).not.toThrow();
    const load = () => ops.loadLinear([plainPart(narrow(narrow(weight, 0, 0, 31), 1, 140, 10))], 'f32');
    expect(load).toThrow(ModelLoadError);
    expect(load).toThrow(/cut off/);
  });
}

function numbersOf(ops: Ops, table: ReturnType<Ops['loadLinear']>): Float32Array {
  const ids = Int32Array.from({ length: table.n }, (_, row) => row);
  return ops.scope(() => ops.read(ops.embedding({ ids, sampled: null }, table)));
}

describe('ranges on the reference backend', () => describeRanges(new ReferenceOps()));

describeEachIsa('ranges', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  describeRanges(cpu);
});

describe('narrow', () => {
  const source = folder.write([8, 6], new Float32Array(48));

  it('counts from the beginning of what it is given', () => {
    const twice = narrow(narrow(source, 0, 2, 5), 0, 1, 3);
    expect(twice).toEqual({ ...source, shape: [3, 6], start: [3, 0] });
  });

  it.each([
    [0, 7, 2],
    [1, -1, 2],
    [1, 0, 0],
    [1, 2, 5],
  ] as const)(
    'refuses a range of dimension %i that begins at %i and is %i long',
    (dimension, start, length) => {
      expect(() => narrow(source, dimension, start, length)).toThrow(ShapeError);
      expect(() => narrow(source, dimension, start, length)).toThrow(`inside dimension ${dimension} of`);
    },
  );
});
