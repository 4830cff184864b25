import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startEach } from '../../src/server/start-each.ts';

function busyFor(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

it('startEach gives the thread to others between tasks that take long to start', async () => {
  let numTurns = 0;
  let isOver = false;
  const others = (async () => {
    while (!isOver) {
      numTurns += 1;
      await nextTurn();
    }
  })();
  const results = await startEach(10, async (index) => {
    busyFor(10);
    return index;
  });
  isOver = true;
  await others;
  expect(results).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(numTurns).toBeGreaterThanOrEqual(10);
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
