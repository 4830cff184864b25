import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type BlockHash,
  blockHash,
  type ExtraKey,
  ROOT_HASH,
  saltKeys,
} from '../../src/kv-cache/prefix-hash.ts';

const BLOCK_SIZE = 4;

interface Prompt {
  readonly tokenIds: readonly number[];
  readonly extraKeys: readonly ExtraKey[];
}

// Few values, so that two prompts often begin alike.
const anyPrompt: fc.Arbitrary<Prompt> = fc.record({
  tokenIds: fc.array(fc.integer({ min: 0, max: 1 }), {
    minLength: 3 * BLOCK_SIZE,
    maxLength: 3 * BLOCK_SIZE,
  }),
  extraKeys: fc
    .uniqueArray(fc.integer({ min: 0, max: 3 * BLOCK_SIZE - 1 }), { maxLength: 3 })
    .chain((positions) =>
      fc.tuple(
        ...positions
          .sort((a, b) => a - b)
          .map((position) =>
            fc
              .tuple(fc.constantFrom('image', 'salt'), fc.constantFrom('a', 'b', 'a","b'))
              .map((key) => ({ position, key })),
          ),
      ),
    ),
});

function hashesOf({ tokenIds, extraKeys }: Prompt): BlockHash[] {
  const hashes: BlockHash[] = [];
  for (let start = 0; start < tokenIds.length; start += BLOCK_SIZE) {
    const block = tokenIds.slice(start, start + BLOCK_SIZE);
    hashes.push(blockHash(hashes.at(-1) ?? ROOT_HASH, block, start, extraKeys));
  }
  return hashes;
}

/** All that the keys and values of the first `end` tokens depend on. */
function contentOf({ tokenIds, extraKeys }: Prompt, end: number): string {
  return JSON.stringify([tokenIds.slice(0, end), extraKeys.filter(({ position }) => position < end)]);
}

describe('blockHash', () => {
  it('names two prefixes alike if and only if their tokens and all extra keys that apply to them are equal', () => {
    const nearby = anyPrompt.chain((one) =>
      fc.tuple(
        fc.constant(one),
        fc.oneof(
          anyPrompt,
          anyPrompt.map(({ extraKeys }) => ({ ...one, extraKeys })),
        ),
      ),
    );
    fc.assert(
      fc.property(nearby, ([one, other]) => {
        const names = hashesOf(other);
        for (const [index, name] of hashesOf(one).entries()) {
          const end = (index + 1) * BLOCK_SIZE;
          expect(name === names[index]).toBe(contentOf(one, end) === contentOf(other, end));
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('leaves the blocks before an image alone, and changes all from its first placeholder on', () => {
    const tokenIds = Array.from({ length: 12 }, (_, index) => index);
    const plain = hashesOf({ tokenIds, extraKeys: [] });
    const withImage = hashesOf({ tokenIds, extraKeys: [{ position: 5, key: ['image', 'cat'] }] });
    expect(plain.map((name, index) => name === withImage[index])).toEqual([true, false, false]);
  });

  it('tells lists of different length apart, and a salt from none', () => {
    expect(blockHash(ROOT_HASH, [1, 2])).not.toBe(blockHash(ROOT_HASH, [1, 2, 0]));
    expect(blockHash(ROOT_HASH, [1], 0, saltKeys(''))).not.toBe(blockHash(ROOT_HASH, [1], 0, saltKeys(null)));
  });

  it('gives the names that every instance gives, of whichever version', () => {
    const inHex = (name: BlockHash) => Buffer.from(name, 'latin1').toString('hex');
    const salted = blockHash(ROOT_HASH, [1, 2, 300, 70000], 0, saltKeys('grün'));
    expect(inHex(blockHash(ROOT_HASH, [1, 2, 300, 70000]))).toBe('b77d49108c188ebb18f150bd5173ada1');
    expect(inHex(salted)).toBe('c337ae1fbea710d6b28a5a2b6794c697');
    expect(inHex(blockHash(salted, [5, 6], 4))).toBe('75e88b07ded89d82f1c3bbfa74743b15');
  });
});
