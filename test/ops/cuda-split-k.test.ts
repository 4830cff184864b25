// Products of the CUDA backend that sum ranges of k side by side: against their definition, and in any batch.

import { afterAll, expect, it } from 'vitest';
import { formatName, inputDTypeOf, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
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
const [ROWS, N] = [70, 40];

describeCuda('products of ranges of k', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());

  it.each(FORMATS.map((format) => [formatName(format), format] as const))(
    'are those of their definition in %s, in any batch',
    (_, format) => {
      // The last range is not whole; of 70 columns some are empty.
      for (const k of [331, 70]) {
        const random = new Random(k);
        const source = folder.write([N, k], random.floats(N * k));
        const dtype = inputDTypeOf(format, cuda.half);
        const x = random.floats(ROWS * k, dtype);
        const product = (ops: Ops, rows: number) =>
          ops.scope(() => {
            const weight = ops.loadLinear([plainPart(source)], format, true);
            return ops.read(ops.linear(ops.tensor(x.subarray(0, rows * k), rows, k, dtype), weight));
          });
        const whole = product(cuda, ROWS);
        expectClose(whole, product(new ReferenceOps(), ROWS), sumTolerance(k));
        for (const rows of [1, 9, 40]) expect(product(cuda, rows)).toEqual(whole.slice(0, rows * N));
      }
    },
  );
});
