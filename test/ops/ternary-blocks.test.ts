// Blocks of -1, 0 and 1: their numbers, and the scale that they may have in common.

import { describe, expect, it } from 'vitest';
import { unpackBlocks } from '../../src/ops/block-formats.ts';
import { commonScale, unpackTernary } from '../../src/ops/ternary-blocks.ts';
import { ternaryBlocks } from '../fixtures/ternary-blocks.ts';
import { Random } from './native-backends.ts';

const random = new Random(21);
const numbers = Float32Array.from({ length: 1024 }, () => random.integer(-1, 1));

describe('blocks of -1, 0 and 1', () => {
  it.each(['tq1_0', 'tq2_0', 'i2_s'] as const)('of %s are the numbers that were written', (dtype) => {
    const got = new Float32Array(numbers.length);
    expect(unpackTernary(dtype, ternaryBlocks(dtype, numbers, 0.5), got)).toBe(true);
    expect(got).toEqual(numbers);
  });

  it('of tq1_0 have every five of them in a byte', () => {
    // All of the 243 in the first bytes of blocks.
    for (let five = 0; five < 243; five++) {
      const block = new Float32Array(256).fill(-1);
      for (let place = 0; place < 5; place++) block[32 * place] = (Math.floor(five / 3 ** place) % 3) - 1;
      const got = new Float32Array(256);
      unpackTernary('tq1_0', ternaryBlocks('tq1_0', block, 1), got);
      expect(got).toEqual(block);
    }
  });

  it.each(['tq2_0', 'i2_s'] as const)('of %s with a code that stands for none are told', (dtype) => {
    const damaged = ternaryBlocks(dtype, numbers, 0.5);
    damaged[5]! |= 3;
    expect(unpackTernary(dtype, damaged, new Float32Array(numbers.length))).toBe(false);
  });

  it.each(['tq1_0', 'tq2_0'] as const)('of %s have a scale in common, or several', (dtype) => {
    const [block, zeros] = [numbers.subarray(0, 256), new Float32Array(256)];
    const make = (...parts: readonly (readonly [Float32Array, number])[]): Uint8Array =>
      Buffer.concat(parts.map(([part, scale]) => ternaryBlocks(dtype, part, scale)));
    expect(commonScale(dtype, make([numbers, 0.375]))).toBe(0.375);
    expect(commonScale(dtype, make([zeros, 0], [block, 0.375], [zeros, 0]))).toBe(0.375);
    expect(commonScale(dtype, make([block, 0.375], [block, 0.25]))).toBeNull();
    expect(commonScale(dtype, make([block, 0.375], [block, 0]))).toBeNull();
    expect(commonScale(dtype, make([block, 0], [block, 0.375]))).toBeNull();
    for (const scale of [0, -0.375, Number.POSITIVE_INFINITY, Number.NaN]) {
      expect(commonScale(dtype, make([block, scale]))).toBeNull();
    }
    expect(commonScale(dtype, make([zeros, 0]))).toBeNull();
  });

  it.each(['tq1_0', 'tq2_0'] as const)('of %s are multiplied by their scale', (dtype) => {
    const got = new Float32Array(numbers.length);
    unpackBlocks(dtype, ternaryBlocks(dtype, numbers, 0.375), got);
    expect(got).toEqual(numbers.map((number) => number * 0.375));
  });
});
