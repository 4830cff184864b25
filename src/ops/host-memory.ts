// How much memory this process may still take: what backends that compute in it have.

import os from 'node:os';

/** Bytes left of the machine's memory, and of the container's limit where there is one. */
export function freeHostMemory(): number {
  const limit = process.constrainedMemory();
  const isLimited = limit > 0 && limit < os.totalmem();
  const left = isLimited ? Math.max(0, limit - process.memoryUsage.rss()) : Number.POSITIVE_INFINITY;
  return Math.min(left, os.freemem());
}
