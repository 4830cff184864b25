import { expect, it } from 'vitest';
import { normalQuantile, normalShare } from '../../src/util/normal-distribution.ts';

it('gives the numbers of tables of the normal distribution', () => {
  expect(normalShare(0)).toBe(0.5);
  expect(normalShare(1)).toBeCloseTo(0.8413447460685429, 14);
  expect(normalQuantile(0.5)).toBe(0);
  expect(normalQuantile(0.95)).toBeCloseTo(1.6448536269514722, 12);
  expect(normalQuantile(0.999999)).toBeCloseTo(4.753424308822899, 9);
});

it('finds the number of any share, on both sides of the mean', () => {
  for (const share of [1e-9, 0.001, 0.05, 0.3, 0.4999, 0.5001, 0.7, 0.9, 0.99999]) {
    expect(normalShare(normalQuantile(share))).toBeCloseTo(share, 12);
    expect(normalQuantile(1 - share)).toBeCloseTo(-normalQuantile(share), 7);
  }
});
