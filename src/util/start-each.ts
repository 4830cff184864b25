// Starts many tasks without holding the thread: to start a thousand takes a while, and others want to go on meanwhile.

import { LongLoop } from './long-loop.ts';

/**
 * Starts task 0 to count - 1 one after the other.
 * @returns what they give, in their order, once all have ended.
 * @throws what the first of them that fails throws, once all have been started.
 */
export async function startEach<T>(count: number, start: (index: number) => Promise<T>): Promise<T[]> {
  const loop = new LongLoop();
  const tasks: Promise<T>[] = [];
  for (let index = 0; index < count; index++) {
    const task = start(index);
    // It may fail before all have been started and are waited for.
    task.catch(() => {});
    tasks.push(task);
    await loop.pause();
  }
  return Promise.all(tasks);
}
