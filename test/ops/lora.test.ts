// What adapters add to products: against the definition, and that a row's bits are its own.

import { afterAll, describe, expect, it } from 'vitest';
import { inputDTypeOf } from '../../src/ops/dtype.ts';
import { type LoraPart, NO_ADAPTER } from '../../src/ops/lora.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { adaptersOf, K, KINDS, N, product, stepOf } from './lora-cases.ts';
import {
  BF16_ROUNDING,
  describeEachIsa,
  dtypes,
  expectClose,
  formats,
  openCpu,
  Random,
  sumTolerance,
} from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

describeEachIsa('adapters', (isa) => {
  const [one, two] = [openCpu(isa, 1), openCpu(isa, 2)];
  afterAll(() => {
    one.close();
    two.close();
  });

  describe.each([...dtypes, 'int8'] as const)('in %s', (format) => {
    const dtype = inputDTypeOf(format, 'bf16');
    it.each(KINDS)('add to %s what the definition says', (kind) => {
      const [actual, expected] = [two, new ReferenceOps()].map((ops) => product(folder, ops, format, kind));
      for (const [count, runs] of [
        [1, 1],
        [9, 2],
        [70, 20],
      ] as const) {
        const x = new Random(count).floats(count * K, dtype);
        const adapters = adaptersOf(count, runs);
        // Gate and up multiply each other's errors. What is between the two matrices is rounded, and may fall the other way.
        const factor = kind === 'gateUp' ? 10 : 1;
        const rounding = dtype === 'bf16' ? BF16_ROUNDING : 0;
        const absolute = factor * (2 * sumTolerance(K).absolute + 8 * rounding);
        const relative = kind === 'gateUp' ? rounding : 0;
        expectClose(actual!.run(x, adapters), expected!.run(x, adapters), { absolute, relative });
      }
    });
  });

  describe.each(formats)('over weights of %j', (format) => {
    const dtype = inputDTypeOf(format, 'bf16');
    const most = 90;
    const x = new Random(5).floats(most * K, dtype);

    it.each(KINDS)(
      'leave a row of %s its bits in any batch, beside any others, on any number of threads',
      (kind) => {
        const [onOne, onTwo] = [product(folder, one, format, kind), product(folder, two, format, kind)];
        const alone = (row: number, adapter: number): Float32Array =>
          onOne.run(x.subarray(row * K, (row + 1) * K), [adapter]);
        for (const [count, runs] of [
          [3, 1],
          [17, 4],
          [64, 16],
          [most, 30],
        ] as const) {
          const adapters = adaptersOf(count, runs);
          const rows = x.subarray(0, count * K);
          const together = onOne.run(rows, adapters);
          expect(onTwo.run(rows, adapters)).toEqual(together);
          for (const row of [0, 1, Math.floor(count / 2), count - 1]) {
            const bits = together.slice(row * N, (row + 1) * N);
            expect(bits, `row ${row} of ${count}`).toEqual(alone(row, adapters[row]!));
          }
        }
      },
    );

    it.each(KINDS)('leave rows without an adapter the bits of %s without any', (kind) => {
      const { run } = product(folder, two, format, kind);
      const adapters = adaptersOf(most, 7);
      const [mixed, plain] = [
        run(x, adapters),
        run(
          x,
          adapters.map(() => NO_ADAPTER),
        ),
      ];
      for (const [row, adapter] of adapters.entries()) {
        const [got, without] = [mixed, plain].map((values) => values.slice(row * N, (row + 1) * N));
        if (adapter === NO_ADAPTER) expect(got).toEqual(without);
        else expect(got).not.toEqual(without);
      }
    });
  });

  it.each([-0, null])('leave a sum of -0 and a bias of %s their sign beside rows with adapters', (bias) => {
    const [n, k] = [16, 64];
    const least = 2 ** -125;
    // A first part of the sum, and a second one that leaves less than a normal number of it: -0.
    const weight = new Float32Array(n * k);
    for (let row = 0; row < n; row += 1) {
      weight[row * k] = -least;
      weight[row * k + k / 2] = least * (1 - 2 ** -3);
    }
    const biases = bias === null ? null : folder.write([n], new Float32Array(n).fill(bias));
    const linear = one.loadLinear([plainPart(folder.write([n, k], weight), biases)], 'bf16');
    const random = new Random(2);
    const [a, b, scales] = [random.floats(k), random.floats(n), Float32Array.of(1)];
    const parts = [{ firstColumn: 0, columns: n, firstRank: 0, ranks: 1 }];
    const lora = one.makeLora({ dtype: 'bf16', k, n, isGateUp: false, rank: 1, a, scales, parts, b });
    const run = (adapters: readonly number[]): Float32Array =>
      one.scope(() => {
        const x = one.tensor(new Float32Array(adapters.length * k).fill(1), adapters.length, k, 'bf16');
        return one.read(
          one.linear(x, linear, { step: stepOf(one, adapters), loras: [{ adapter: 3, lora }] }),
        );
      });
    expect(run([NO_ADAPTER, 3]).slice(0, n)).toEqual(run([NO_ADAPTER]));
  });

  it('are refused where they were freed, were made for another product, or have parts that it has not', () => {
    const make = (k: number, n: number, isGateUp = false, part: Partial<LoraPart> = {}) => {
      const parts = [{ firstColumn: 0, columns: 8, firstRank: 0, ranks: 1, ...part }];
      const [a, scales, b] = [k, 1, 8].map((length) => new Float32Array(length));
      return two.makeLora({ dtype: 'f32', k, n, isGateUp, rank: 1, a: a!, scales: scales!, parts, b: b! });
    };
    const weight = two.loadLinear([plainPart(folder.write([8, 4], new Float32Array(32)))], 'f32');
    const x = two.tensor(new Float32Array(4), 1, 4, 'f32');
    const step = stepOf(two, [1]);
    const run = (lora: ReturnType<typeof make>) =>
      two.linear(x, weight, { step, loras: [{ adapter: 1, lora }] });
    const lora = make(4, 8);
    run(lora);
    lora.free();
    expect(() => run(lora)).toThrow(/a lora that is not freed/);
    expect(() => run(make(5, 8))).toThrow(/this weight's format, k and columns/);
    expect(() => run(make(4, 9))).toThrow(/this weight's format, k and columns/);
    expect(() => run(make(4, 8, true))).toThrow(/this weight's format, k and columns/);
    expect(() => make(4, 8, false, { firstColumn: 1 })).toThrow(
      /columns of a part from 0 to 7, got 8 from 1/,
    );
    expect(() => make(4, 8, false, { firstRank: 1 })).toThrow(/ranks of a part from 0 to 0, got 1 from 1/);
  });
});
