import { expect, it } from 'vitest';
import { mostStates, shareStates } from '../../src/runner/state-counts.ts';

it.each([
  [{ maxNumSeqs: 8, enablePrefixCaching: true }, 8 + 64],
  [{ maxNumSeqs: 100, enablePrefixCaching: true }, 100 + 100],
  [{ maxNumSeqs: 8, enablePrefixCaching: false }, 8],
])('with %j nobody needs more than %i states', (limits, most) => {
  expect(mostStates(limits)).toBe(most);
  expect(shareStates(limits, most).maxNumSeqs).toBe(limits.maxNumSeqs);
});

it.each([
  [1, { maxNumSeqs: 1, numSnapshots: 0 }],
  [2, { maxNumSeqs: 1, numSnapshots: 1 }],
  [5, { maxNumSeqs: 3, numSnapshots: 2 }],
  [20, { maxNumSeqs: 8, numSnapshots: 12 }],
])('of %i states half are for sequences that run, one at least and no more than may', (numStates, shared) => {
  expect(shareStates({ maxNumSeqs: 8, enablePrefixCaching: true }, numStates)).toEqual(shared);
});
