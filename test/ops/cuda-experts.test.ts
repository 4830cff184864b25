// Mixtures of experts of the CUDA backend, over an emulated driver: against their definition, and that a row is alone with its experts.

import { afterAll, describe, expect, it } from 'vitest';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { compute, load, makeInput, makeParts, NORMALIZED, ROUTINGS, upTo } from './expert-cases.ts';
import { expectClose, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

describe('mixtures of experts of the CUDA backend', needsCudaEmulator, () => {
  const cuda = openCuda();
  const reference = new ReferenceOps();
  afterAll(() => cuda.close());

  it.each(ROUTINGS)('are what their definition says: %j', (routing) => {
    const random = new Random(1);
    const [count, k, inner] = [8, 72, 41];
    const parts = makeParts(folder, random, count, k, inner);
    const [own, defined] = [load(cuda, parts, 'bf16'), load(reference, parts, 'bf16')];
    for (const rows of [1, 5, 40]) {
      const input = makeInput(random, rows, k, count);
      const actual = compute(cuda, own, routing, input, upTo(rows));
      const expected = compute(reference, defined, routing, input, upTo(rows));
      const size = Math.sqrt(expected.reduce((sum, value) => sum + value * value, 0) / expected.length);
      expectClose(actual, expected, { absolute: size * 2 ** -6, relative: 2 ** -6 });
    }
  });

  it('choose among many experts, by scores that differ in their last bit, or are equal', () => {
    const random = new Random(2);
    const count = 70;
    const parts = makeParts(folder, random, count, 16, 8);
    const [own, defined] = [load(cuda, parts, 'bf16'), load(reference, parts, 'bf16')];
    const input = makeInput(random, 3, 16, count);
    input.logits.fill(1, 0, count);
    input.logits.set([1.0000001, 1.0000002, 1.0000001], 35);
    input.logits.fill(Number.NEGATIVE_INFINITY, count + 9, 2 * count - 9);
    const bias = random.floats(count).map((value) => value / 50);
    for (const topK of [2, 17]) {
      const [actual, expected] = ([cuda, reference] as const).map((ops) => {
        const routing = { ...NORMALIZED, topK, bias: ops.makeVector(bias) };
        const experts = ops === cuda ? own : defined;
        return [NORMALIZED, routing].map((one) => compute(ops, experts, { ...one, topK }, input, upTo(3)));
      });
      for (const [i, numbers] of actual!.entries()) {
        expectClose(numbers, expected![i]!, { absolute: 0.02, relative: 2 ** -6 });
      }
    }
  });

  it('give a token the same bits in any batch, few of them or many', () => {
    const random = new Random(3);
    const [count, k, inner, tokens] = [3, 520, 24, 70];
    const experts = load(cuda, makeParts(folder, random, count, k, inner), 'bf16');
    const input = makeInput(random, tokens, k, count);
    const whole = compute(cuda, experts, NORMALIZED, input, upTo(tokens));
    for (const rows of [[0], [69, 3], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], upTo(30)]) {
      const got = compute(cuda, experts, NORMALIZED, input, rows);
      for (const [i, row] of rows.entries()) {
        expect(got.subarray(i * k, (i + 1) * k)).toEqual(whole.subarray(row * k, (row + 1) * k));
      }
    }
  });

  it('keep a token whose logits are no numbers to itself', () => {
    const random = new Random(4);
    const experts = load(cuda, makeParts(folder, random, 4, 32, 16), 'bf16');
    const input = makeInput(random, 3, 32, 4);
    const whole = compute(cuda, experts, NORMALIZED, input, upTo(3));
    input.logits.fill(Number.NaN, 4, 8);
    const got = compute(cuda, experts, NORMALIZED, input, upTo(3));
    expect(got.subarray(32, 64).every(Number.isNaN)).toBe(true);
    expect([...got.subarray(0, 32), ...got.subarray(64)]).toEqual([
      ...whole.subarray(0, 32),
      ...whole.subarray(64),
    ]);
  });

  it('compute no token at all', () => {
    const experts = load(cuda, makeParts(folder, new Random(5), 2, 32, 16), 'bf16');
    const none = { x: new Float32Array(), logits: new Float32Array() };
    expect(compute(cuda, experts, NORMALIZED, none, [])).toEqual(new Float32Array());
  });
});
