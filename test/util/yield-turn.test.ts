import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { TurnShare, yieldTurn } from '../../src/util/yield-turn.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

const NUM_WORKERS = 20;
const NUM_PARTS = 15;

it('many who work long at the same time hold a turn no longer than one, and each gets on', async () => {
  const order: number[] = [];
  const work = async (worker: number): Promise<void> => {
    for (let part = 0; part < NUM_PARTS; part++) {
      busyFor(1);
      order.push(worker);
      await yieldTurn();
    }
  };
  const workers = Array.from({ length: NUM_WORKERS }, (_, worker) => worker);
  // Only what runs in later turns is shared: the first part of each runs when it is called.
  const numTurns = await turnsDuring(Promise.all(workers.map(work)));
  // A turn has room for about 5 parts, however many want one.
  expect(numTurns).toBeGreaterThan((NUM_WORKERS * NUM_PARTS) / 10);
  // Nobody is done before everybody has had a turn.
  const firstDone = Math.min(...workers.map((worker) => order.lastIndexOf(worker)));
  expect(new Set(order.slice(NUM_WORKERS, firstDone)).size).toBe(NUM_WORKERS);
});

it('work that was short so far goes on in the same turn', async () => {
  await nextTurn();
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  let isLater = false;
  setImmediate(() => {
    isLater = true;
  });
  await yieldTurn();
  await yieldTurn();
  clock.mockRestore();
  expect(isLater).toBe(false);
});

it('work with a share of its own does not wait for others that have used theirs up', async () => {
  await nextTurn();
  busyFor(1);
  await yieldTurn();
  busyFor(10);
  const longWork = yieldTurn().then(() => 'long work');
  const own = new TurnShare(5).yieldTurn().then(() => 'own');
  expect(await Promise.race([longWork, own])).toBe('own');
  expect(await longWork).toBe('long work');
});
