// The blocks that each group of layers needs, and the laws of the manager that hands them out.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type BlockGroups,
  blocksForFewer,
  firstSeen,
  isNear,
  longestSequence,
  mostBlocks,
  numTokenBlocks,
  numTransferred,
  tokensInFirst,
  transferBlocks,
  transferGroups,
  transferSize,
} from '../../src/kv-cache/block-groups.ts';
import { type CachedSequence, KvCacheManager } from '../../src/kv-cache/kv-cache-manager.ts';

const anyWindows = fc.constantFrom<(number | null)[][]>(
  [null],
  [20],
  [null, 20],
  [null, null, 5, 5],
  [40, 33, 1],
);

function groupsOf(windows: readonly (number | null)[]): BlockGroups {
  return { blockSize: 16, windows };
}

describe('the blocks of a transfer', () => {
  it('are all of the prompt where all layers see as far', () => {
    for (const windows of [[null], [20]]) {
      expect(transferSize(groupsOf(windows), 100)).toBe(7);
      expect(numTransferred(groupsOf(windows), 100, 3)).toBe(3);
      expect(transferBlocks(groupsOf(windows), 100, [[9, 8, 7]], 1, 3)).toEqual([8, 7]);
    }
  });

  it('are, of a group with a window, what the last whole block and the tokens behind it see', () => {
    // The token at 96 sees those from 77 on.
    const tables = [
      [10, 11, 12, 13, 14, 15, 16],
      [0, 0, 0, 0, 24, 25, 26],
    ];
    const groups = groupsOf([null, 20]);
    expect(transferBlocks(groups, 100, tables, 0, 7)).toEqual([10, 11, 12, 13, 14, 24, 15, 25, 16, 26]);
    expect(transferSize(groups, 100)).toBe(10);
    expect([0, 3, 4, 6].map((count) => tokensInFirst(groups, 100, count))).toEqual([0, 48, 64, 80]);
    expect(tokensInFirst(groups, 100, 10)).toBe(100);
  });

  it('end with those of states, also where it is of fewer tokens', () => {
    const groups = { ...groupsOf([null]), stateBlocks: 2 };
    const blocks = [10, 11, 12, 13, 20, 21];
    expect([transferSize(groups, 64), numTokenBlocks(groups, 64)]).toEqual([6, 4]);
    expect([...transferGroups(groups, 64)]).toEqual([0, 0, 0, 0, 0, 0]);
    expect(blocksForFewer(groups, 64, blocks)).toEqual(blocks);
    expect(blocksForFewer(groups, 32, blocks)).toEqual([10, 11, 20, 21]);
    expect(blocksForFewer(groupsOf([null]), 32, blocks)).toEqual([10, 11]);
    expect(mostBlocks(groups, 64, 16)).toBe(6);
    expect([1, 2, 6].map((numBlocks) => longestSequence(groups, numBlocks, 16))).toEqual([0, 0, 64]);
  });

  it('begin alike for the whole prompt and for its whole blocks, and in pieces of any size', () => {
    fc.assert(
      fc.property(
        anyWindows,
        fc.integer({ min: 1, max: 300 }),
        fc.nat({ max: 20 }),
        (windows, length, cut) => {
          const groups = groupsOf(windows);
          const end = Math.ceil(length / 16);
          const tables = windows.map((_, group) => Array.from({ length: end }, (_, i) => group * 1000 + i));
          const all = transferBlocks(groups, length, tables, 0, end);
          const rounded = length - (length % 16);
          expect(all).toHaveLength(transferSize(groups, length));
          expect(all.slice(0, transferSize(groups, rounded))).toEqual(
            transferBlocks(groups, rounded, tables, 0, rounded / 16),
          );
          const middle = Math.min(cut, end);
          expect(transferBlocks(groups, length, tables, middle, end)).toEqual(
            all.slice(numTransferred(groups, length, middle)),
          );
        },
      ),
    );
  });
});

describe('the longest sequence', () => {
  it('is the one that needs no more blocks than there are', () => {
    fc.assert(
      fc.property(
        anyWindows,
        fc.nat({ max: 200 }),
        fc.integer({ min: 1, max: 70 }),
        (windows, blocks, step) => {
          const groups = groupsOf(windows);
          const longest = longestSequence(groups, blocks, step);
          expect(mostBlocks(groups, longest, step)).toBeLessThanOrEqual(blocks);
          expect(mostBlocks(groups, longest + 1, step)).toBeGreaterThan(blocks);
        },
      ),
    );
  });
});

interface Sequence extends CachedSequence {
  readonly tokens: number[];
  numComputed: number;
}

describe('KvCacheManager', () => {
  it('gives a block to one owner at a time, holds no more for a sequence than its windows need, and gets all back', () => {
    const action = fc.record({
      who: fc.nat({ max: 3 }),
      what: fc.nat({ max: 9 }),
      count: fc.integer({ min: 1, max: 40 }),
    });
    fc.assert(
      fc.property(
        anyWindows,
        fc.array(action, { maxLength: 120 }),
        fc.boolean(),
        (windows, actions, shares) => {
          const config = {
            ...groupsOf(windows),
            numBlocks: 60,
            enablePrefixCaching: shares,
            maxNumBatchedTokens: 40,
          };
          const manager = new KvCacheManager(config);
          const running = new Map<number, Sequence>();
          for (const { who, what, count } of actions) {
            const one = running.get(who);
            if (one === undefined) {
              const begun = sequenceOf(5 + count * 7, who % 2);
              const numCached = manager.admit(begun, count);
              if (numCached === null) continue;
              begun.numComputed = numCached;
              running.set(who, begun);
              compute(manager, begun, Math.min(count, begun.tokens.length - numCached));
            } else if (what === 0) {
              manager.free(one);
              running.delete(who);
            } else {
              if (one.numComputed === one.tokens.length) one.tokens.push(what);
              const most = Math.min(count, one.tokens.length - one.numComputed);
              if (manager.grow(one, one.numComputed + most)) compute(manager, one, most);
            }
            checkOwners(manager, config, [...running.values()]);
          }
          for (const one of running.values()) manager.free(one);
          assert.equal(manager.numFreeBlocks, 60);
        },
      ),
    );
  });

  it('finds a prefix only where each group has what the next token sees, and the longest such one', () => {
    const config = {
      ...groupsOf([null, 20]),
      numBlocks: 40,
      enablePrefixCaching: true,
      maxNumBatchedTokens: 64,
    };
    const manager = new KvCacheManager(config);
    const first = sequenceOf(160, 0);
    manager.admit(first, 64);
    for (const end of [64, 128, 160]) {
      manager.grow(first, end);
      compute(manager, first, end - first.numComputed);
    }
    manager.free(first);
    // All blocks are there still, those that were given back early as well.
    const again = sequenceOf(160, 0);
    expect(manager.admit(again, 64)).toBe(144);
    // The token at 144 sees those from 125 on.
    expect(again.tables.map(({ numUnseenBlocks }) => numUnseenBlocks)).toEqual([0, 7]);
    manager.free(again);
    // Takes the least recently used ones: of the window's group, those that were given back first.
    const other = sequenceOf(300, 1);
    manager.admit(other, 64);
    for (const end of [64, 128, 192, 256]) {
      manager.grow(other, end);
      compute(manager, other, end - other.numComputed);
    }
    manager.free(other);
    const half = sequenceOf(100, 0);
    expect(manager.admit(half, 64)).toBeLessThan(96);
    manager.free(half);
    expect(manager.numFreeBlocks).toBe(40);
  });

  it('has no blocks for what the tokens that are to be loaded would not see', () => {
    const config = {
      ...groupsOf([null, 20]),
      numBlocks: 12,
      enablePrefixCaching: true,
      maxNumBatchedTokens: 32,
    };
    const manager = new KvCacheManager(config);
    const sequence = sequenceOf(130, 0);
    expect(manager.canAdmit(sequence, Number.POSITIVE_INFINITY, [], 129)).toBe(true);
    expect(manager.admit(sequence, Number.POSITIVE_INFINITY, 129)).toBe(0);
    expect(sequence.tables.map(({ blocks }) => blocks.length)).toEqual([9, 9]);
    // The token at 128 sees those from 109 on.
    expect(sequence.tables[1]?.numUnseenBlocks).toBe(6);
    expect(manager.numFreeBlocks).toBe(0);
    expect(manager.hasAllSeen(sequence, 128)).toBe(true);
    expect(manager.hasAllSeen(sequence, 0)).toBe(false);
    manager.free(sequence);
    expect(manager.numFreeBlocks).toBe(12);
  });
});

function sequenceOf(length: number, kind: number): Sequence {
  return {
    tokens: Array.from({ length }, (_, index) => kind * 1000 + index),
    tables: [],
    blockHashes: [],
    states: { snapshot: null, ends: [], blocks: [], haveCome: false },
    statesPassAt: null,
    extraKeys: [],
    mayReadCache: true,
    numCacheableTokens: length - 1,
    numComputed: 0,
  };
}

/** A step computes the next `count` tokens. */
function compute(manager: KvCacheManager, sequence: Sequence, count: number): void {
  const begin = sequence.numComputed;
  sequence.numComputed += count;
  manager.publish(sequence, sequence.numComputed, begin);
  manager.freeUnseen(sequence, sequence.numComputed);
}

function checkOwners(
  manager: KvCacheManager,
  config: BlockGroups & { readonly numBlocks: number; readonly maxNumBatchedTokens: number },
  sequences: readonly Sequence[],
): void {
  const owned = new Set<number>();
  for (const { tables, tokens, numComputed } of sequences) {
    const own = tables.map(({ blocks, numUnseenBlocks }) => blocks.slice(numUnseenBlocks));
    // Of what is shared, each has an entry; within a sequence no block is twice.
    assert.equal(new Set(own.flat()).size, own.flat().length);
    for (const block of own.flat()) owned.add(block);
    for (const [group, blocks] of own.entries()) {
      assert(tables[group]!.numUnseenBlocks <= firstSeen(config, group, numComputed));
      assert(tables[group]!.blocks.length * config.blockSize >= numComputed);
      if (!isNear(config, group)) continue;
      const window = config.windows[group]!;
      assert(blocks.length <= Math.ceil((window - 1 + config.maxNumBatchedTokens) / config.blockSize) + 1);
    }
    assert(own.flat().length <= mostBlocks(config, tokens.length, config.maxNumBatchedTokens));
  }
  assert.equal(manager.numFreeBlocks, config.numBlocks - owned.size);
}
