import { describe, expect, it } from 'vitest';
import { partsOf } from '../../src/runner/sequence-parts.ts';

function parts(first: number, end: number, ...ranges: readonly (readonly [first: number, end: number])[]) {
  const wholeRanges = ranges.map(([first, end]) => ({ first, end }));
  const tokenIds = new Array<number>(end - first).fill(7);
  return partsOf({ firstPosition: first, tokenIds, wholeRanges }).map(({ first, end, seesAhead }) =>
    seesAhead ? `see ${first} to ${end}` : `${first} to ${end}`,
  );
}

describe('the parts of a sequence', () => {
  it('are one where no tokens see each other', () => {
    expect(parts(3, 9)).toEqual(['3 to 9']);
  });

  it('are images and what is between them', () => {
    expect(parts(0, 30, [4, 8], [10, 14])).toEqual([
      '0 to 4',
      'see 4 to 8',
      '8 to 10',
      'see 10 to 14',
      '14 to 30',
    ]);
    expect(parts(4, 14, [4, 8], [8, 14])).toEqual(['see 4 to 8', 'see 8 to 14']);
  });

  it('begin with the rest of an image that was computed before', () => {
    expect(parts(6, 10, [4, 8])).toEqual(['see 6 to 8', '8 to 10']);
  });

  it('see nothing ahead in the last token of an image', () => {
    expect(parts(7, 10, [4, 8])).toEqual(['7 to 8', '8 to 10']);
  });
});
