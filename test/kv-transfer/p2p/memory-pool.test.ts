import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  MemoryPool,
  PoolFullError,
  PoolOffsetError,
  PoolSizeError,
  PoolTooSmallError,
} from '../../../src/kv-transfer/p2p/memory-pool.ts';

const CAPACITY = 2 ** 16;
const EMPTY = { capacityBytes: CAPACITY, usedBytes: 0, allocations: 0, largestFreeBytes: CAPACITY };

/** Allocations of random sizes, and frees of the n-th that lives. */
const steps = fc.array(
  fc.oneof(fc.record({ bytes: fc.integer({ min: 1, max: CAPACITY / 2 }) }), fc.record({ free: fc.nat() })),
  { maxLength: 200 },
);

describe('the memory pool', () => {
  it('gives out no byte twice, and merges all that comes back', () => {
    fc.assert(
      fc.property(steps, (sequence) => {
        const pool = new MemoryPool(CAPACITY);
        const living: { offset: number; bytes: number }[] = [];
        for (const step of sequence) {
          if ('bytes' in step) {
            try {
              const offset = pool.allocate(step.bytes);
              const bytes = MemoryPool.blockBytes(step.bytes);
              expect(offset % bytes).toBe(0);
              expect(offset + bytes).toBeLessThanOrEqual(CAPACITY);
              for (const other of living) {
                expect(offset + bytes <= other.offset || other.offset + other.bytes <= offset).toBe(true);
              }
              living.push({ offset, bytes });
            } catch (error) {
              expect(error).toBeInstanceOf(PoolFullError);
              expect(pool.stats.largestFreeBytes).toBeLessThan(step.bytes);
            }
          } else if (living.length > 0) {
            const [gone] = living.splice(step.free % living.length, 1);
            pool.free(gone!.offset);
          }
          expect(pool.stats.usedBytes).toBe(living.reduce((sum, { bytes }) => sum + bytes, 0));
        }
        for (const { offset } of living) pool.free(offset);
        expect(pool.stats).toMatchObject(EMPTY);
      }),
    );
  });

  it('takes the lower half and keeps the upper one free', () => {
    const pool = new MemoryPool(2048);
    expect([pool.allocate(1), pool.allocate(512), pool.allocate(1024)]).toEqual([0, 512, 1024]);
    expect(pool.stats).toMatchObject({ usedBytes: 2048, allocations: 3, largestFreeBytes: 0 });
  });

  it('holds regions beyond 4 GiB', () => {
    const pool = new MemoryPool(2 ** 40);
    const offsets = [pool.allocate(2 ** 39), pool.allocate(2 ** 38), pool.allocate(2 ** 38)];
    expect(offsets).toEqual([0, 2 ** 39, 2 ** 39 + 2 ** 38]);
    for (const offset of offsets) pool.free(offset);
    expect(pool.stats.largestFreeBytes).toBe(2 ** 40);
  });

  it('refuses what it cannot do, each with its own error', () => {
    const pool = new MemoryPool(1024);
    expect(() => pool.allocate(0)).toThrow(PoolSizeError);
    expect(() => pool.allocate(Number.NaN)).toThrow(PoolSizeError);
    expect(() => pool.allocate(1025)).toThrow(PoolTooSmallError);
    pool.allocate(1024);
    expect(() => pool.allocate(1)).toThrow(PoolFullError);
    expect(pool.stats.refused).toBe(1);
    pool.free(0);
    expect(() => pool.free(0)).toThrow(PoolOffsetError);
    expect(() => pool.free(512)).toThrow(PoolOffsetError);
    expect(() => new MemoryPool(1000)).toThrow(PoolSizeError);
    expect(() => new MemoryPool(256)).toThrow(PoolSizeError);
  });

  it('of nothing has nothing', () => {
    const pool = new MemoryPool(0);
    expect(() => pool.allocate(1)).toThrow(PoolTooSmallError);
    expect(pool.stats).toMatchObject({ capacityBytes: 0, usedBytes: 0, largestFreeBytes: 0 });
  });
});
