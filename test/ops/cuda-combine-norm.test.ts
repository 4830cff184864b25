// A product whose parts are added, and the norm of the rows that come of it: in steps of single tokens one launch, with the bytes of two.

import { afterAll, expect, it } from 'vitest';
import type { Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { Random } from '../helpers/random.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { beginStep } from './steps.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

/** So long that a GPU cuts it for few rows, whatever its kernels. */
const K = 1600;
const [ROWS, EPS] = [3, 1e-5];

describeCuda('a product and a norm', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());
  const cache = cuda.makeKvCache({
    layers: 1,
    blocks: 1,
    blockSize: 16,
    kvHeads: 1,
    headDim: 16,
    dtype: 'bf16',
  });
  /** From here on launches are collected, as those of a decode step. */
  const beginDecode = () => beginStep(cuda, cache, 1);
  /** From here on each is launched by itself, as in a step with a prompt. */
  const beginPrompt = () => beginStep(cuda, cache, 2);

  // A row is one warp's, one block's, more than a block takes at a time.
  for (const cols of [40, 300, 4200]) {
    const random = new Random(cols);
    const weights = random.floats(cols * K);
    const bias = random.floats(cols);
    const norm = cuda.makeVector(random.floats(cols));
    const [values, before] = [random.floats(ROWS * K, 'bf16'), random.floats(ROWS * cols)];
    const source = folder.write([cols, K], weights, 'bf16');
    const plain = cuda.loadLinear([plainPart(source)], 'bf16', true);
    const biased = cuda.loadLinear([plainPart(source, folder.write([cols], bias))], 'bf16', true);

    const compute = (rows: number, weight: typeof plain, isAdded: boolean, dtype: 'f32' | 'bf16') =>
      cuda.scope(() => {
        const x = cuda.tensor(values.subarray(0, rows * K), rows, K, 'bf16');
        let sum: Tensor;
        if (isAdded) {
          sum = cuda.tensor(before.subarray(0, rows * cols), rows, cols, 'f32');
          cuda.addLinear(sum, x, weight);
        } else {
          sum = cuda.linear(x, weight);
        }
        const normal = cuda.rmsNorm(sum, norm, EPS, dtype);
        return [cuda.read(sum), cuda.read(normal)];
      });

    it(`have the bytes of two launches: ${cols} columns`, () => {
      for (const rows of [1, ROWS]) {
        for (const [weight, isAdded, dtype] of [
          [plain, true, 'bf16'],
          [biased, true, 'f32'],
          [biased, false, 'bf16'],
        ] as const) {
          beginPrompt();
          const expected = compute(rows, weight, isAdded, dtype);
          beginDecode();
          expect(compute(rows, weight, isAdded, dtype)).toEqual(expected);
        }
      }
    });
  }

  it('have the bytes of two launches where the norm is that of the first columns', () => {
    const [cols, first] = [300, 200];
    const random = new Random(2);
    const weight = cuda.loadLinear(
      [plainPart(folder.write([cols, K], random.floats(cols * K), 'bf16'))],
      'bf16',
      true,
    );
    const norm = cuda.makeVector(random.floats(first));
    const [values, before] = [random.floats(K, 'bf16'), random.floats(cols)];
    const compute = () =>
      cuda.scope(() => {
        const sum = cuda.tensor(before, 1, cols, 'f32');
        cuda.addLinear(sum, cuda.tensor(values, 1, K, 'bf16'), weight);
        const [normed] = cuda.split(sum, [first, cols - first]);
        const normal = cuda.rmsNorm(normed!, norm, EPS, 'f32');
        return [cuda.read(sum), cuda.read(normal)];
      });
    beginPrompt();
    const expected = compute();
    beginDecode();
    expect(compute()).toEqual(expected);
  });

  it('are one launch where the norm is that of the product, and two where it is another', () => {
    const [cols, rows] = [300, 1];
    const random = new Random(1);
    const weight = cuda.loadLinear(
      [plainPart(folder.write([cols, K], random.floats(cols * K), 'bf16'))],
      'bf16',
      true,
    );
    const norm = cuda.makeVector(random.floats(cols));
    const FILLING = 8;
    /** A product is one launch, its sum of parts another. */
    const launches = (isOwn: boolean) => {
      cuda.limitRecorded(0);
      const fits = (most: number): boolean => {
        cuda.limitRecorded(most);
        for (let time = 0; time < 2; time += 1) {
          beginDecode();
          cuda.scope(() => {
            const x = cuda.tensor(random.floats(rows * K, 'bf16'), rows, K, 'bf16');
            const other = cuda.tensor(random.floats(rows * cols), rows, cols, 'f32');
            for (let i = 0; i < FILLING; i += 1) cuda.scale(other, 1);
            const sum = cuda.linear(x, weight);
            cuda.read(cuda.rmsNorm(isOwn ? sum : other, norm, EPS, 'f32'));
          });
        }
        return cuda.recorded.count > 0;
      };
      return [0, 1, 2, 3, 4].find((more) => fits(FILLING + more));
    };
    expect([launches(true), launches(false)]).toEqual([2, 3]);
  });
});
