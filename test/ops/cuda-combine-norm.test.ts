// A product whose parts are added, and the norm of the rows that come of it: in steps of single tokens one launch, with the bytes of two.

import { afterAll, describe, expect, it } from 'vitest';
import { NO_SLOT, type Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { Random } from '../helpers/random.ts';
import { WeightFolder } from '../helpers/weight-file.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const K = 70;
const [ROWS, EPS] = [3, 1e-5];

describe('a product and a norm', needsCudaEmulator, () => {
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
  const single = Int32Array.of(0);

  /** From here on launches are collected, as those of a decode step. */
  function beginStep(): void {
    const batch = {
      numSequences: 1,
      queryStarts: Int32Array.of(0, 1),
      contextLengths: Int32Array.of(1),
      blockTables: single,
      maxBlocks: 1,
    };
    cuda.beginStep(cache, { positions: single, slotMapping: Int32Array.of(NO_SLOT), batch });
  }

  /** From here on each is launched by itself, as in a step with a prompt. */
  function beginPrompt(): void {
    const batch = {
      numSequences: 1,
      queryStarts: Int32Array.of(0, 2),
      contextLengths: Int32Array.of(2),
      blockTables: single,
      maxBlocks: 1,
    };
    const two = Int32Array.of(0, 1);
    cuda.beginStep(cache, { positions: two, slotMapping: Int32Array.of(NO_SLOT, NO_SLOT), batch });
  }

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
          beginStep();
          expect(compute(rows, weight, isAdded, dtype)).toEqual(expected);
        }
      }
    });
  }

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
          beginStep();
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
      let most = FILLING;
      while (!fits(most)) most += 1;
      return most - FILLING;
    };
    expect([launches(true), launches(false)]).toEqual([2, 3]);
  });
});
