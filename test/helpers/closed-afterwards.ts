// What a test opens is closed after it, whether it passes or not.

import { type afterAll, afterEach } from 'vitest';

interface Closable {
  close(): unknown;
}

/**
 * Gives a function that takes what is to be closed after the running test, the last first.
 * @param after `afterAll` where tests run side by side: after the last of them
 */
export function closedAfterwards(
  after: typeof afterEach | typeof afterAll = afterEach,
): <T extends Closable>(one: T) => T {
  const open: Closable[] = [];
  after(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  });
  return (one) => {
    open.push(one);
    return one;
  };
}
