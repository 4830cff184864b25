import { describe, expect, it } from 'vitest';
import { EventQueue } from '../../../src/kv-transfer/p2p/event-queue.ts';

describe('EventQueue', () => {
  it('handles an event that another causes after that one', () => {
    const seen: string[] = [];
    const queue = new EventQueue<number>((event) => {
      seen.push(`begin ${event}`);
      if (event < 2) queue.push(event + 1);
      seen.push(`end ${event}`);
    });
    queue.push(0);
    expect(seen).toEqual(['begin 0', 'end 0', 'begin 1', 'end 1', 'begin 2', 'end 2']);
  });

  it('goes on after an event whose handling throws', () => {
    const seen: number[] = [];
    const queue = new EventQueue<number>((event) => {
      if (event === 0) throw new Error('broken');
      seen.push(event);
    });
    expect(() => queue.push(0)).toThrow('broken');
    queue.push(1);
    expect(seen).toEqual([1]);
  });
});
