// What adapters add to products of the CUDA backend, over an emulated driver: against the definition, and that a row's bits are its own.

import { afterAll, expect, it } from 'vitest';
import type { WeightFormat } from '../../src/ops/dtype.ts';
import { NO_ADAPTER } from '../../src/ops/lora.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { adaptersOf, K, KINDS, N, product } from './lora-cases.ts';
import { BF16_ROUNDING, codeFormats, expectClose, Random, sumTolerance } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

describeCuda('adapters of the CUDA backend', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());

  it.each(KINDS)('add to %s what the definition says', (kind) => {
    const [actual, expected] = [cuda, new ReferenceOps()].map((ops) => product(folder, ops, 'bf16', kind));
    for (const [count, runs] of [
      [1, 1],
      [9, 2],
      [70, 20],
    ] as const) {
      const x = new Random(count).floats(count * K, 'bf16');
      const adapters = adaptersOf(count, runs);
      // Gate and up multiply each other's errors. What is between the two matrices is rounded, and may fall the other way.
      const factor = kind === 'gateUp' ? 10 : 1;
      const absolute = factor * (2 * sumTolerance(K).absolute + 8 * BF16_ROUNDING);
      const relative = kind === 'gateUp' ? BF16_ROUNDING : 0;
      expectClose(actual!.run(x, adapters), expected!.run(x, adapters), { absolute, relative });
    }
  });

  it.each(KINDS)('leave a row of %s its bits in any batch, beside any others', (kind) => {
    const { run } = product(folder, cuda, 'bf16', kind);
    for (const [count, runs] of [
      [3, 1],
      [17, 4],
      [90, 30],
    ] as const) {
      const x = new Random(5).floats(count * K, 'bf16');
      const adapters = adaptersOf(count, runs);
      const together = run(x, adapters);
      for (const row of [0, 1, Math.floor(count / 2), count - 1]) {
        const alone = run(x.subarray(row * K, (row + 1) * K), [adapters[row]!]);
        expect(together.slice(row * N, (row + 1) * N), `row ${row} of ${count}`).toEqual(alone);
      }
    }
  });

  it.each(KINDS)('leave rows without an adapter the bits of %s without any', (kind) => {
    const { run } = product(folder, cuda, 'bf16', kind);
    const x = new Random(6).floats(20 * K, 'bf16');
    const adapters = adaptersOf(20, 3);
    const plain = run(
      x,
      adapters.fill(NO_ADAPTER, 0, 9).map(() => NO_ADAPTER),
    );
    expect(run(x, adapters).slice(0, 9 * N)).toEqual(plain.slice(0, 9 * N));
    expect(run(x, adapters)).not.toEqual(plain);
  });

  it.each<WeightFormat>(['int8', codeFormats[0]!])(
    'add to products in %o what the definition says',
    (format) => {
      const [actual, expected] = [cuda, new ReferenceOps()].map((ops) =>
        product(folder, ops, format, KINDS[0]!),
      );
      const x = new Random(7).floats(9 * K, 'bf16');
      const adapters = adaptersOf(9, 2);
      const absolute = 2 * sumTolerance(K).absolute + 8 * BF16_ROUNDING;
      expectClose(actual!.run(x, adapters), expected!.run(x, adapters), { absolute });
    },
  );

  it.each(KINDS)('add to %s in float32 what the definition says, alone and beside others', (kind) => {
    const [actual, expected] = [cuda, new ReferenceOps()].map((ops) => product(folder, ops, 'f32', kind));
    const count = 40;
    const x = new Random(7).floats(count * K);
    const adapters = adaptersOf(count, 5);
    const together = actual!.run(x, adapters);
    const absolute = (kind === 'gateUp' ? 20 : 2) * sumTolerance(K).absolute;
    expectClose(together, expected!.run(x, adapters), { absolute, relative: 1e-5 });
    const alone = actual!.run(x.subarray(9 * K, 10 * K), [adapters[9]!]);
    expect(together.slice(9 * N, 10 * N)).toEqual(alone);
  });
});
