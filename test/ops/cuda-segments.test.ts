// Products whose sum over k is a tree of segments, on the CUDA backend: against their definition, and in the parts that ranks would hold.

import { afterAll, describe, expect, it } from 'vitest';
import { formatName, inputDTypeOf, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type Segments, sumOfSegments } from '../../src/ops/segments.ts';
import { narrow, plainPart } from '../../src/ops/weights.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { expectClose, Random, sumTolerance } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const FORMATS: readonly WeightFormat[] = [
  'bf16',
  'f32',
  'int8',
  { kind: 'int4', groupSize: 32, hasZeros: false },
];
const ROWS = 70;

describe('products of segments of the CUDA backend', needsCudaEmulator, () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());

  /** A weight [n, k] and rows of x; what it gives is the product of some rows and of columns [first, first + count). */
  function makeProduct(format: WeightFormat, n: number, k: number) {
    const random = new Random(k);
    const source = folder.write([n, k], random.floats(n * k));
    const dtype = inputDTypeOf(format);
    const x = random.floats(ROWS * k, dtype);
    return (ops: Ops, rows: number, segments: Segments, first = 0, count = k) =>
      ops.scope(() => {
        const own = Float32Array.from(
          { length: rows * count },
          (_, i) => x[Math.floor(i / count) * k + first + (i % count)]!,
        );
        const weight = ops.loadLinear([plainPart(narrow(source, 1, first, count))], format, segments);
        return ops.read(ops.linear(ops.tensor(own, rows, count, dtype), weight));
      });
  }

  it.each(FORMATS.map((format) => [formatName(format), format] as const))(
    'are those of their definition in %s, in any batch',
    (_, format) => {
      const [n, k] = [40, 331];
      const product = makeProduct(format, n, k);
      const whole = product(cuda, ROWS, 8);
      expectClose(whole, product(new ReferenceOps(), ROWS, 8), sumTolerance(k));
      for (const rows of [1, 9, 40]) expect(product(cuda, rows, 8)).toEqual(whole.slice(0, rows * n));
    },
  );

  it.each(
    FORMATS.filter((format) => format !== 'int8').map((format) => [formatName(format), format] as const),
  )('have in %s the bits of their parts, added as a tree', (_, format) => {
    const k = 768;
    const product = makeProduct(format, 24, k);
    for (const rows of [2, ROWS]) {
      const whole = product(cuda, rows, 8);
      for (const degree of [2, 4, 8] as const) {
        const parts = Array.from({ length: degree }, (_, rank) =>
          product(cuda, rows, (8 / degree) as Segments, (rank * k) / degree, k / degree),
        );
        expect(whole.map((_, i) => sumOfSegments(parts.map((part) => part[i]!)))).toEqual(whole);
      }
    }
  });
});
