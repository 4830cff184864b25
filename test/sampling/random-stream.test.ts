import { describe, expect, it } from 'vitest';
import { philox, uniform } from '../../src/sampling/random-stream.ts';

describe('random stream', () => {
  // Known answers of Philox4x32-10, as published with the reference implementation (Random123, kat_vectors).
  it('equals the published vectors of Philox4x32-10', () => {
    expect(philox([0, 0, 0, 0], [0, 0])).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    expect(philox([ones, ones, ones, ones], [ones, ones])).toEqual([
      0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd,
    ]);
    expect(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0])).toEqual([
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1,
    ]);
  });

  it('depends on seed, sample and position, and on nothing else', () => {
    const number = uniform(7, 1, 100);
    expect(uniform(7, 1, 100)).toBe(number);
    for (const other of [
      uniform(8, 1, 100),
      uniform(7, 2, 100),
      uniform(7, 1, 101),
      uniform(7 + 2 ** 40, 1, 100),
    ]) {
      expect(other).not.toBe(number);
    }
  });

  it('takes every integer of 64 bits as a seed', () => {
    const seeds = [0, -1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 2 ** 32, 2 ** 62, -(2 ** 63)];
    const numbers = seeds.map((seed) => uniform(seed, 0, 0));
    expect(new Set(numbers).size).toBe(seeds.length);
    for (const number of numbers) expect(number >= 0 && number < 1).toBe(true);
  });

  it('is uniform over [0, 1) by a chi-square test', () => {
    const numBins = 64;
    const numDraws = 64_000;
    const bins = new Array<number>(numBins).fill(0);
    for (let position = 0; position < numDraws; position += 1) {
      bins[Math.floor(uniform(1234, 0, position) * numBins)]! += 1;
    }
    const expected = numDraws / numBins;
    const chiSquare = bins.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    // 63 degrees of freedom: 99.99 % of uniform streams lie between these.
    expect(chiSquare).toBeGreaterThan(29);
    expect(chiSquare).toBeLessThan(114);
  });
});
