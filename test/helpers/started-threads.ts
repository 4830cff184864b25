// The worker threads that this one starts in a test, so that a test can end one.

import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach } from 'vitest';

/** Those of the running test. They are ended after it, once the file's own `afterEach` has closed what uses them. */
export function startedThreads(): readonly Worker[] {
  const threads: Worker[] = [];
  const note = (worker: Worker): void => void threads.push(worker);
  beforeEach(() => void process.on('worker', note));
  afterEach(async () => {
    process.off('worker', note);
    await Promise.all(threads.splice(0).map((thread) => thread.terminate()));
  });
  return threads;
}
