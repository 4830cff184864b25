import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool } from '../../src/kv-cache/block-pool.ts';

describe('BlockPool', () => {
  it('hands out each block once until its last user frees it, under any order of calls', () => {
    const action = fc.record({
      kind: fc.constantFrom('allocate', 'free', 'share', 'find'),
      size: fc.nat(12),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(action, { maxLength: 80 }),
        (numBlocks, actions) => {
          const pool = new BlockPool(numBlocks);
          const held: number[][] = [];
          for (const [step, { kind, size }] of actions.entries()) {
            const inUse = new Set(held.flat());
            if (kind === 'allocate') {
              const blocks = pool.allocate(size);
              expect(blocks === null).toBe(size > numBlocks - inUse.size);
              expect(blocks?.some((block) => inUse.has(block)) ?? false).toBe(false);
              if (blocks !== null && blocks.length > 0) {
                held.push(blocks);
                pool.remember(blocks[0]!, `prefix ${step % 5}`);
              }
            } else if (kind === 'free' && held.length > 0) {
              pool.free(held.splice(size % held.length, 1)[0]!);
            } else if (kind === 'share' && held.length > 0) {
              const blocks = held[size % held.length]!;
              for (const block of blocks) pool.share(block);
              held.push([...blocks]);
            } else if (kind === 'find') {
              const block = pool.find(`prefix ${size % 5}`);
              if (block !== null) {
                pool.share(block);
                held.push([block]);
              }
            }
            const inUseNow = new Set(held.flat());
            expect(pool.numFree).toBe(numBlocks - inUseNow.size);
            const all = Array.from({ length: numBlocks }, (_, block) => block);
            expect(all.filter((block) => !pool.isFree(block))).toEqual(
              all.filter((block) => inUseNow.has(block)),
            );
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

  it('reuses blocks without a prefix first, then the prefix that was freed longest ago', () => {
    const pool = new BlockPool(4);
    const [a, b, c, d] = pool.allocate(4)!;
    pool.remember(a!, 'A');
    pool.remember(b!, 'B');
    pool.remember(d!, 'D');
    pool.free([b!]);
    pool.free([c!]);
    pool.free([a!]);
    pool.free([d!]);
    expect(pool.allocate(4)).toEqual([c, b, a, d]);
    expect(['A', 'B', 'D'].map((hash) => pool.find(hash))).toEqual([null, null, null]);
  });

  it('evicts the end of a prompt before its beginning', () => {
    const pool = new BlockPool(3);
    const blocks = pool.allocate(3)!;
    for (const [index, block] of blocks.entries()) pool.remember(block, `prefix ${index}`);
    pool.free(blocks);
    expect(pool.allocate(1)).toEqual([blocks[2]]);
    expect(pool.find('prefix 0')).toBe(blocks[0]);
  });

  it('takes a free block back by its prefix, as it was', () => {
    const pool = new BlockPool(2);
    const [block] = pool.allocate(1)!;
    pool.remember(block!, 'A');
    pool.free([block!]);
    pool.share(pool.find('A')!);
    expect(pool.isFree(block!)).toBe(false);
    expect(pool.allocate(2)).toBeNull();
  });

  it('keeps the prefix with the first of two blocks that hold it, whatever becomes of the other', () => {
    const pool = new BlockPool(2);
    const [first, second] = pool.allocate(2)!;
    for (const block of [first!, second!]) pool.remember(block, 'A');
    expect(pool.find('A')).toBe(first);
    pool.free([second!]);
    expect(pool.allocate(1)).toEqual([second]);
    expect(pool.find('A')).toBe(first);
  });

  it.each([
    ['its block is handed out again', (pool: BlockPool) => pool.allocate(1)],
    ['all are forgotten', (pool: BlockPool) => pool.forgetAll()],
  ])('finds a prefix in the block that holds it after %s, whatever becomes of the old one', (_, lose) => {
    const pool = new BlockPool(2);
    const [old, other] = pool.allocate(2)!;
    pool.remember(old!, 'A');
    pool.free([old!]);
    lose(pool);
    expect(pool.find('A')).toBeNull();
    pool.remember(other!, 'A');
    if (!pool.isFree(old!)) pool.free([old!]);
    expect(pool.allocate(1)).toEqual([old]);
    expect(pool.find('A')).toBe(other);
  });

  it('refuses to free a block twice', () => {
    const pool = new BlockPool(2);
    const blocks = pool.allocate(1)!;
    pool.free(blocks);
    expect(() => pool.free(blocks)).toThrow(/freed twice/);
  });
});
