// What a test opens is closed after it, whether it passes or not.

import { afterEach } from 'vitest';

interface Closable {
  close(): unknown;
}

/** Gives a function that takes what is to be closed after the running test, the last first. */
export function closedAfterwards(): <T extends Closable>(one: T) => T {
  const open: Closable[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  });
  return (one) => {
    open.push(one);
    return one;
  };
}
