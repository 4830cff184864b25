import { expect, it } from 'vitest';
import { summarise } from '../../../src/cli/bench/statistics.ts';

it('percentiles between two values lie on the line that joins them', () => {
  const { mean, percentiles } = summarise([4, 1, 3, 2, 5]);
  expect(mean).toBe(3);
  expect(percentiles).toEqual({ 10: 1.4, 25: 2, 50: 3, 75: 4, 90: 4.6, 99: 4.96 });
});

it('one value is its own mean and every percentile', () => {
  expect(summarise([7])).toEqual({ mean: 7, percentiles: { 10: 7, 25: 7, 50: 7, 75: 7, 90: 7, 99: 7 } });
});
