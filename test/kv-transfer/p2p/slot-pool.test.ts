import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlotPool, type Slots } from '../../../src/kv-transfer/p2p/slot-pool.ts';

const SLOT = 1500;

describe('SlotPool', () => {
  it('takes slots from the buffer, then from the pool, then says that both are full', () => {
    const slots = new SlotPool(4 * SLOT + 100, 5 * SLOT + 692, SLOT);
    expect(slots.bytes).toBe(9 * SLOT);
    const [a, b, c, d] = [slots.take(3), slots.take(2), slots.take(1), slots.take(3)];
    expect([a?.location, b?.location, c?.location, d?.location]).toEqual([
      'buffer',
      'pool',
      'buffer',
      'pool',
    ]);
    expect(slots.take(1)).toBeNull();
    expect(slots.numTaken).toBe(4);
    expect(slots.bufferUsedBytes).toBe(4 * SLOT);
    expect(slots.poolUsedBytes).toBe(5 * SLOT);
    slots.give(a!);
    expect(slots.take(1)?.location).toBe('buffer');
  });

  it.each([
    ['Qwen2.5-0.5B', 196_608],
    ['Qwen3-4B', 2_359_296],
    ['Llama-3-8B', 2_097_152],
  ])('can give out the whole pool, whatever the size of a block (%s)', (_, slotBytes) => {
    const poolBytes = 2 ** 30;
    const slots = new SlotPool(0, poolBytes, slotBytes);
    const most = Math.floor(poolBytes / slotBytes);
    expect(slots.couldHold(most)).toBe(true);
    expect(slots.take(most)?.offsets).toHaveLength(most);
    expect(poolBytes - slots.poolUsedBytes).toBeLessThan(slotBytes);
  });

  it('knows how many blocks can never fit', () => {
    const slots = new SlotPool(4 * SLOT, 9 * SLOT, SLOT);
    expect(slots.couldHold(9)).toBe(true);
    expect(slots.couldHold(10)).toBe(false);
    expect(new SlotPool(4 * SLOT, 0, SLOT).couldHold(5)).toBe(false);
    expect(new SlotPool(10, 0, SLOT).couldHold(1)).toBe(false);
  });

  it('gives out no byte twice, and has every byte back in the end', () => {
    const steps = fc.array(
      fc.record({ blocks: fc.integer({ min: 1, max: 6 }), free: fc.boolean(), which: fc.nat() }),
    );
    fc.assert(
      fc.property(steps, (sequence) => {
        const pool = new SlotPool(7 * SLOT, 10 * SLOT, SLOT);
        const living: Slots[] = [];
        for (const { blocks, free, which } of sequence) {
          if (free && living.length > 0) {
            pool.give(living.splice(which % living.length, 1)[0]!);
          } else {
            const slots = pool.take(blocks);
            if (slots !== null) living.push(slots);
          }
          const offsets = living.flatMap((slots) => [...slots.offsets]).sort((x, y) => x - y);
          for (const [index, offset] of offsets.entries()) {
            expect(offset + SLOT).toBeLessThanOrEqual(offsets[index + 1] ?? pool.bytes);
          }
        }
        for (const slots of living) pool.give(slots);
        expect([pool.numTaken, pool.bufferUsedBytes, pool.poolUsedBytes]).toEqual([0, 0, 0]);
      }),
    );
  });
});
