import { expect, it } from 'vitest';
import { fuzzLoaders } from './loaders.ts';

it('a damaged model is taken, or refused with an error for people, soon and whatever the damage', () => {
  const { runs, refused, faults } = fuzzLoaders({ seed: 7, runs: 1500 });
  expect(faults).toEqual([]);
  // Most damages are found; a few leave a file that is right.
  expect(refused).toBeGreaterThan(runs / 3);
});
