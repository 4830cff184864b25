// Starts many tasks without holding the thread: a thousand starts take a while, and other requests must go on meanwhile.

import { yieldTurn } from '../util/yield-turn.ts';

/**
 * Starts task 0 to count - 1 in order.
 * @returns their results in the same order, once all have ended.
 * @throws what the first of them that fails throws, once all have been started.
 */
export async function startEach<T>(count: number, start: (index: number) => Promise<T>): Promise<T[]> {
  const tasks: Promise<T>[] = [];
  for (let index = 0; index < count; index++) {
    const task = start(index);
    // It may fail before all have been started and are waited for.
    task.catch(() => {});
    tasks.push(task);
    await yieldTurn();
  }
  return Promise.all(tasks);
}
