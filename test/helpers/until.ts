// Waits for what no event tells.

import { setTimeout as sleep } from 'node:timers/promises';

/** Between two looks, which may cost those who are looked at as much as what is waited for. */
const LONGEST_PAUSE_MS = 8;

/** @throws where it does not become true within `patienceMs`, which is for machines that are busy with other things. */
export async function until(isTrue: () => boolean | Promise<boolean>, patienceMs = 30_000): Promise<void> {
  const deadline = Date.now() + patienceMs;
  for (let pause = 1; !(await isTrue()); pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    if (Date.now() > deadline) throw new Error(`waited ${patienceMs} ms in vain for: ${isTrue}`);
    await sleep(pause);
  }
}
