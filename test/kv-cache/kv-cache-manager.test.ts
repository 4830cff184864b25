import { describe, expect, it } from 'vitest';
import { type CachedSequence, KvCacheManager } from '../../src/kv-cache/kv-cache-manager.ts';
import { saltKeys } from '../../src/kv-cache/prefix-hash.ts';

const CONFIG = {
  numBlocks: 8,
  blockSize: 16,
  enablePrefixCaching: true,
  windows: [null],
  maxNumBatchedTokens: 2048,
};

function table(
  numTokens: number,
  options: { first?: number; salt?: string; mayRead?: boolean } = {},
): CachedSequence {
  return {
    tokens: Array.from({ length: numTokens }, (_, index) => (options.first ?? 0) + index),
    tables: [],
    blockHashes: [],
    states: { snapshot: null, ends: [], blocks: [], haveCome: false },
    statesPassAt: null,
    extraKeys: saltKeys(options.salt ?? null),
    mayReadCache: options.mayRead ?? true,
    numCacheableTokens: numTokens - 1,
  };
}

/** Admits, publishes and frees `prompt`, so that its full blocks can be found. */
function leaveBehind(manager: KvCacheManager, prompt: CachedSequence): void {
  manager.admit(prompt, prompt.tokens.length);
  manager.publish(prompt, prompt.tokens.length, 0);
  manager.free(prompt);
}

describe('KvCacheManager', () => {
  it('grows a table only when a token crosses into a new block', () => {
    const manager = new KvCacheManager(CONFIG);
    const sequence = table(16);
    expect(manager.admit(sequence, 16)).toBe(0);
    expect(sequence.tables[0]?.blocks ?? []).toHaveLength(1);
    expect(manager.grow(sequence, 17)).toBe(true);
    expect(sequence.tables[0]?.blocks ?? []).toHaveLength(2);
    expect(manager.numFreeBlocks).toBe(6);
  });

  it('leaves table and pool as they were when the pool is too small', () => {
    const manager = new KvCacheManager({ ...CONFIG, numBlocks: 2 });
    leaveBehind(manager, table(32));
    const sequence = table(64);
    expect(manager.admit(sequence, 64)).toBeNull();
    expect(sequence.tables[0]?.blocks ?? []).toHaveLength(0);
    expect(manager.numFreeBlocks).toBe(2);
  });

  it('finds the whole blocks of a prefix that an earlier sequence left behind', () => {
    const manager = new KvCacheManager(CONFIG);
    leaveBehind(manager, table(40));
    expect(manager.admit(table(50), 50)).toBe(32);
  });

  it('never takes the last token from the cache: its logits are wanted', () => {
    const manager = new KvCacheManager(CONFIG);
    leaveBehind(manager, table(32));
    expect(manager.admit(table(32), 32)).toBe(16);
  });

  it('gives back the blocks that no token to come can see, once, and keeps their prefix', () => {
    const manager = new KvCacheManager({ ...CONFIG, windows: [20] });
    const sequence = table(64);
    manager.admit(sequence, 64);
    manager.publish(sequence, 64, 0);
    // The token at 34 sees those from 15 on.
    manager.freeUnseen(sequence, 34);
    expect(manager.numFreeBlocks).toBe(4);
    for (const position of [35, 36, 40, 35]) manager.freeUnseen(sequence, position);
    expect(manager.numFreeBlocks).toBe(5);
    expect(sequence.tables[0]?.blocks ?? []).toHaveLength(4);
    expect(manager.canAdmit(table(120, { first: 500 }), 120, [])).toBe(false);
    expect(manager.canAdmit(table(120, { first: 500 }), 120, [sequence])).toBe(true);
    const other = table(60);
    expect(manager.admit(other, 60)).toBe(48);
    manager.free(sequence);
    manager.free(other);
    expect(manager.numFreeBlocks).toBe(8);
  });

  it('gives nothing back early where some layer sees everything', () => {
    const manager = new KvCacheManager(CONFIG);
    const sequence = table(64);
    manager.admit(sequence, 64);
    manager.freeUnseen(sequence, 63);
    expect(manager.numFreeBlocks).toBe(4);
  });

  it('shares a block between sequences that run at the same time', () => {
    const manager = new KvCacheManager(CONFIG);
    const first = table(32);
    const second = table(33);
    manager.admit(first, 32);
    manager.publish(first, 32, 0);
    expect(manager.admit(second, 33)).toBe(32);
    expect(second.tables[0]!.blocks.slice(0, 2)).toEqual(first.tables[0]!.blocks);
    manager.free(first);
    expect(manager.numFreeBlocks).toBe(8 - 3);
    manager.free(second);
    expect(manager.numFreeBlocks).toBe(8);
  });

  it.each([
    ['another beginning', table(50, { first: 1 })],
    ['another salt', table(50, { salt: 'mine' })],
    ['a request whose every token must be computed', table(50, { mayRead: false })],
  ])('finds nothing for %s', (_, other) => {
    const manager = new KvCacheManager(CONFIG);
    leaveBehind(manager, table(40));
    expect(manager.admit(other, 50)).toBe(0);
  });

  it('finds no block behind another beginning, though it holds the same tokens', () => {
    const manager = new KvCacheManager(CONFIG);
    const [one, other] = [table(33), table(33, { first: 500 })];
    leaveBehind(manager, one);
    leaveBehind(manager, other);
    const mixed = { ...table(33), tokens: [...one.tokens.slice(0, 16), ...other.tokens.slice(16)] };
    expect(manager.admit(mixed, 33)).toBe(16);
  });

  it('finds nothing after a reset or where caching is off', () => {
    const manager = new KvCacheManager(CONFIG);
    leaveBehind(manager, table(40));
    manager.reset();
    expect(manager.admit(table(50), 50)).toBe(0);
    const off = new KvCacheManager({ ...CONFIG, enablePrefixCaching: false });
    leaveBehind(off, table(40));
    expect(off.admit(table(50), 50)).toBe(0);
  });
});
