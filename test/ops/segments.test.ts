// Products whose sum over k is a tree of segments: against their definition, and in the parts that ranks would hold.

import { afterAll, describe, expect, it } from 'vitest';
import { type ComputeDType, formatName, inputDTypeOf, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type Segments, segmentStarts, sumOfSegments } from '../../src/ops/segments.ts';
import { narrow, plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, expectClose, formats, openCpu, Random, sumTolerance } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

/** Below and above each number of rows from which kernels go another way. */
const BATCHES = [1, 2, 16, 17, 70];
/** Rows of whole segments, of segments longer than what kernels take at once, of more segments than steps, and of a rest. */
const SIZES = [
  { n: 43, k: 1024 },
  { n: 20, k: 6000 },
  { n: 33, k: 70 },
  { n: 67, k: 331 },
];
const DEGREES: readonly Segments[] = [2, 4, 8];

describe('segments of k', () => {
  it('are about as many whole units', () => {
    expect(segmentStarts(320, 8)).toEqual([0, 32, 64, 96, 160, 192, 224, 256, 320]);
    expect(segmentStarts(40, 4)).toEqual([0, 0, 32, 32, 40]);
    expect(segmentStarts(331, 1)).toEqual([0, 331]);
  });

  it('are added as a binary tree, in f32', () => {
    const small = 2 ** -24;
    expect(sumOfSegments([1, small, small, small])).toBe(1 + 2 ** -23);
    expect(sumOfSegments([1, small, small, 0])).toBe(1);
  });
});

interface Case {
  readonly ops: Ops;
  readonly format: WeightFormat;
  readonly source: TensorSource;
  readonly x: Float32Array;
  readonly rows: number;
}

/** Rows of the product of columns [first, first + count) of x and the weight. */
function product(
  { ops, format, source, x, rows }: Case,
  segments: Segments,
  first = 0,
  count = source.shape[1]!,
) {
  const dtype: ComputeDType = inputDTypeOf(format);
  const k = source.shape[1]!;
  const own = Float32Array.from(
    { length: rows * count },
    (_, i) => x[Math.floor(i / count) * k + first + (i % count)]!,
  );
  return ops.scope(() => {
    const weight = ops.loadLinear([plainPart(narrow(source, 1, first, count))], format, segments);
    return ops.read(ops.linear(ops.tensor(own, rows, count, dtype), weight));
  });
}

function makeCase(ops: Ops, format: WeightFormat, n: number, k: number, rows: number): Case {
  const random = new Random(n);
  const source = folder.write([n, k], random.floats(n * k));
  return { ops, format, source, x: random.floats(rows * k, inputDTypeOf(format)), rows };
}

describeEachIsa('products of segments', (isa) => {
  const one = openCpu(isa, 1);
  const two = openCpu(isa, 2);
  afterAll(() => {
    one.close();
    two.close();
  });

  describe.each(formats.map((format) => ({ name: formatName(format), format })))('in $name', ({ format }) => {
    it.each(SIZES)('are those of their definition, [$n, $k]', ({ n, k }) => {
      const own = makeCase(one, format, n, k, 18);
      const [actual, expected] = [product(own, 8), product({ ...own, ops: new ReferenceOps() }, 8)];
      expectClose(actual, expected, sumTolerance(k));
    });

    it.each(SIZES)('have the same bits in any batch and on any number of threads, [$n, $k]', ({ n, k }) => {
      const most = makeCase(one, format, n, k, BATCHES.at(-1)!);
      const whole = product(most, 8);
      for (const rows of BATCHES) {
        const batch = { ...most, rows, x: most.x.subarray(0, rows * k) };
        expect(product(batch, 8)).toEqual(whole.slice(0, rows * n));
        expect(product({ ...batch, ops: two }, 8)).toEqual(whole.slice(0, rows * n));
      }
    });
  });

  it.each(['f32', 'bf16', { kind: 'int4', groupSize: 32, hasZeros: false }] as const)(
    'have the bits of their parts, added as a tree: %o',
    (format) => {
      const { n, k } = SIZES[0]!;
      for (const rows of BATCHES) {
        const own = makeCase(one, format, n, k, rows);
        const whole = product(own, 8);
        for (const degree of DEGREES) {
          const parts = Array.from({ length: degree }, (_, rank) =>
            product(own, (8 / degree) as Segments, (rank * k) / degree, k / degree),
          );
          expect(whole.map((_, i) => sumOfSegments(parts.map((part) => part[i]!)))).toEqual(whole);
        }
      }
    },
  );
});
