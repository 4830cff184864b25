import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NgramIndex } from '../../src/speculation/ngram-index.ts';

describe('NgramIndex', () => {
  it('continues as the same tokens were continued before', () => {
    const index = new NgramIndex(2, 4);
    expect(index.continuation([1, 2, 3, 4, 5, 9, 2, 3], 3)).toEqual([4, 5, 9]);
    expect(index.continuation([1, 2, 3, 4, 5, 9, 2, 3, 7], 3)).toEqual([]);
  });

  it('prefers the longest match, and the latest among equals', () => {
    const index = new NgramIndex(1, 3);
    expect(index.continuation([1, 2, 3, 10, 2, 3, 11, 1, 2, 3], 1)).toEqual([10]);
    expect(new NgramIndex(1, 2).continuation([1, 2, 3, 10, 2, 3, 11, 1, 2, 3], 1)).toEqual([11]);
  });

  it('goes on with a loop beyond the end of the tokens', () => {
    expect(new NgramIndex(2, 4).continuation([7, 1, 2, 3, 1, 2, 3, 1, 2], 7)).toEqual([3, 1, 2, 3, 1, 2, 3]);
    expect(new NgramIndex(2, 4).continuation([5, 5, 5], 4)).toEqual([5, 5, 5, 5]);
  });

  it('finds nothing in what is shorter than a match', () => {
    expect(new NgramIndex(3, 4).continuation([1, 1], 4)).toEqual([]);
    expect(new NgramIndex(3, 4).continuation([1, 1, 1], 4)).toEqual([]);
  });

  it('finds the same as a search of all tokens, however they came', () => {
    const chunks = fc.array(fc.array(fc.nat(3), { maxLength: 6 }), { maxLength: 8 });
    fc.assert(
      fc.property(chunks, fc.integer({ min: 1, max: 3 }), fc.nat(2), (pieces, min, more) => {
        const max = min + more;
        const index = new NgramIndex(min, max);
        const tokens: number[] = [];
        for (const piece of pieces) {
          tokens.push(...piece);
          expect(index.continuation(tokens, 1)).toEqual(search(tokens, min, max));
        }
      }),
    );
  });

  it('compares few places, however often the tokens have come before', () => {
    const tokens = Array.from({ length: 20_000 }, (_, index) => [1, 2, 3, index + 10][index % 4]!);
    const end = [...tokens, 9, 1, 2];
    const counted = new CountedReads(end);
    const index = new NgramIndex(2, 4);
    index.continuation(counted.tokens, 1);
    counted.reads = 0;
    index.continuation(counted.tokens, 1);
    expect(counted.reads).toBeLessThan(100);
  });
});

/** As the index defines it, among its few latest candidates. */
function search(tokens: readonly number[], min: number, max: number): number[] {
  const lengthAt = (follower: number): number => {
    let length = 0;
    while (length < max && length < follower && tokens[follower - 1 - length] === tokens.at(-1 - length))
      length += 1;
    return length;
  };
  const candidates = tokens.map((_, index) => index).filter((index) => lengthAt(index) >= min);
  const latest = candidates.reverse().slice(0, 8);
  const best = latest.reduce<number | null>(
    (found, index) => (found === null || lengthAt(index) > lengthAt(found) ? index : found),
    null,
  );
  return best === null ? [] : [tokens[best]!];
}

class CountedReads {
  reads = 0;
  readonly tokens: readonly number[];

  constructor(tokens: readonly number[]) {
    this.tokens = new Proxy(tokens, {
      get: (target, key) => {
        if (typeof key === 'string' && /^\d+$/.test(key)) this.reads += 1;
        return Reflect.get(target, key);
      },
    });
  }
}
