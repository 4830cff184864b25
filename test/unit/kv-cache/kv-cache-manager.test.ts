import { describe, expect, it } from 'vitest';
import { KvCacheManager } from '../../../src/kv-cache/kv-cache-manager.ts';

describe('KvCacheManager', () => {
  it('grows a table only when a token crosses into a new block', () => {
    const manager = new KvCacheManager(4, 16);
    const table = { blocks: [] };
    expect(manager.allocate(table, 1)).toBe(true);
    expect(manager.allocate(table, 16)).toBe(true);
    expect(table.blocks).toHaveLength(1);
    expect(manager.allocate(table, 17)).toBe(true);
    expect(table.blocks).toHaveLength(2);
    expect(manager.numFreeBlocks).toBe(2);
  });

  it('leaves table and pool as they were when the pool is too small', () => {
    const manager = new KvCacheManager(2, 16);
    const table = { blocks: [] };
    manager.allocate(table, 16);
    expect(manager.allocate(table, 64)).toBe(false);
    expect(table.blocks).toHaveLength(1);
    expect(manager.numFreeBlocks).toBe(1);
  });

  it('gives all blocks of a sequence back', () => {
    const manager = new KvCacheManager(3, 16);
    const table = { blocks: [] };
    manager.allocate(table, 40);
    manager.free(table);
    expect(table.blocks).toHaveLength(0);
    expect(manager.numFreeBlocks).toBe(3);
  });
});
