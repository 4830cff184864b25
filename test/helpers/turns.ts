// How often the event loop turns while something is being done: others get their turn as often.

import { setImmediate as nextTurn } from 'node:timers/promises';

/** Waits for `work`. @returns the turns that began meanwhile. */
export async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = work.finally(() => {
    isOver = true;
  });
  // Where it fails it is awaited later.
  over.catch(() => {});
  let numTurns = 0;
  while (!isOver) {
    numTurns += 1;
    await nextTurn();
  }
  await over;
  return numTurns;
}

/** Holds the thread. */
export function busyFor(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}
