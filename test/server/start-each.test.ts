import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startEach } from '../../src/server/start-each.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

it('startEach gives the thread to others between tasks that take long to start', async () => {
  const all = startEach(10, async (index) => {
    busyFor(10);
    return index;
  });
  expect(await turnsDuring(all)).toBeGreaterThanOrEqual(9);
  expect(await all).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

it('startEach throws what a task throws that fails while others are being started', async () => {
  const start = async (index: number): Promise<number> => {
    busyFor(10);
    if (index === 1) throw new Error('the second failed');
    await nextTurn();
    return index;
  };
  await expect(startEach(5, start)).rejects.toThrow('the second failed');
});
