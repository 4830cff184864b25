// Waits for what no event tells.

import { setTimeout as sleep } from 'node:timers/promises';

/** @throws where it does not become true within `patienceMs`. */
export async function until(isTrue: () => boolean | Promise<boolean>, patienceMs = 30_000): Promise<void> {
  const deadline = Date.now() + patienceMs;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`waited ${patienceMs} ms in vain for: ${isTrue}`);
    await sleep(1);
  }
}
