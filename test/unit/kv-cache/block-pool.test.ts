import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool } from '../../../src/kv-cache/block-pool.ts';

describe('BlockPool', () => {
  it('hands out each block once until it is freed', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.record({ isAllocate: fc.boolean(), size: fc.nat(12) }), { maxLength: 60 }),
        (numBlocks, actions) => {
          const pool = new BlockPool(numBlocks);
          const held: number[][] = [];
          for (const { isAllocate, size } of actions) {
            if (isAllocate) {
              const freeBefore = pool.numFree;
              const blocks = pool.allocate(size);
              expect(blocks === null).toBe(size > freeBefore);
              if (blocks !== null) held.push(blocks);
            } else if (held.length > 0) {
              pool.free(held.splice(size % held.length, 1)[0]!);
            }
            const inUse = held.flat();
            expect(new Set(inUse).size).toBe(inUse.length);
            expect(inUse.every((block) => block >= 0 && block < numBlocks)).toBe(true);
            expect(pool.numFree).toBe(numBlocks - inUse.length);
          }
        },
      ),
    );
  });

  it('changes nothing when it cannot give all that is asked', () => {
    const pool = new BlockPool(3);
    expect(pool.allocate(4)).toBeNull();
    expect(pool.numFree).toBe(3);
  });

  it('hands out what was freed last, in the same order', () => {
    const pool = new BlockPool(8);
    const blocks = pool.allocate(3)!;
    pool.free(blocks);
    expect(pool.allocate(3)).toEqual(blocks);
  });

  it('refuses to free a block twice', () => {
    const pool = new BlockPool(2);
    const blocks = pool.allocate(1)!;
    pool.free(blocks);
    expect(() => pool.free(blocks)).toThrow(/freed twice/);
  });
});
