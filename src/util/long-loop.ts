// Lets others have the thread between the parts of a long loop.

import { setImmediate } from 'node:timers/promises';

/** Milliseconds that a loop may hold the thread. */
const MAX_TURN_MS = 5;

export class LongLoop {
  #turnBegan = performance.now();

  /** Awaited between two parts: gives the thread away where the loop has held it for long enough. */
  async pause(): Promise<void> {
    if (performance.now() - this.#turnBegan < MAX_TURN_MS) return;
    await setImmediate();
    this.#turnBegan = performance.now();
  }
}
