import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Area, ReceiveMemory } from '../../../src/kv-transfer/p2p/receive-memory.ts';

const SLOT = 1500;

describe('the receive memory', () => {
  it('takes from the buffer, then from the pool, then says that it is full', () => {
    const memory = new ReceiveMemory(4 * SLOT + 100, 8192, SLOT);
    expect(memory.bytes).toBe(4 * SLOT + 8192);
    const [a, b, c, d] = [memory.take(3), memory.take(2), memory.take(1), memory.take(2)];
    expect([a?.place, b?.place, c?.place, d?.place]).toEqual(['buffer', 'pool', 'buffer', 'pool']);
    expect(memory.take(1)).toBeNull();
    expect(memory.areas).toBe(4);
    expect(memory.bufferUsedBytes).toBe(4 * SLOT);
    expect(memory.pool.usedBytes).toBe(8192);
    memory.give(a!);
    expect(memory.take(1)?.place).toBe('buffer');
  });

  it('knows what can never fit', () => {
    const memory = new ReceiveMemory(4 * SLOT, 16384, SLOT);
    expect(memory.couldHold(8)).toBe(true);
    expect(memory.couldHold(9)).toBe(false);
    expect(new ReceiveMemory(4 * SLOT, 0, SLOT).couldHold(5)).toBe(false);
    expect(new ReceiveMemory(10, 0, SLOT).couldHold(1)).toBe(false);
  });

  it('gives out no byte twice, and has all back in the end', () => {
    const steps = fc.array(
      fc.record({ blocks: fc.integer({ min: 1, max: 6 }), free: fc.boolean(), which: fc.nat() }),
    );
    fc.assert(
      fc.property(steps, (sequence) => {
        const memory = new ReceiveMemory(7 * SLOT, 16384, SLOT);
        const living: Area[] = [];
        for (const { blocks, free, which } of sequence) {
          if (free && living.length > 0) {
            memory.give(living.splice(which % living.length, 1)[0]!);
          } else {
            const area = memory.take(blocks);
            if (area !== null) living.push(area);
          }
          const offsets = living.flatMap((area) => [...area.offsets]).sort((x, y) => x - y);
          for (const [index, offset] of offsets.entries()) {
            expect(offset + SLOT).toBeLessThanOrEqual(offsets[index + 1] ?? memory.bytes);
          }
        }
        for (const area of living) memory.give(area);
        expect([memory.areas, memory.bufferUsedBytes, memory.pool.usedBytes]).toEqual([0, 0, 0]);
      }),
    );
  });
});
