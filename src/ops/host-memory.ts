// How much memory this process may still take: what backends that compute in it have.

import os from 'node:os';

/** Bytes left of the container's limit where there is one, else of the machine's memory. */
export function freeHostMemory(): number {
  const limit = process.constrainedMemory();
  const isLimited = limit > 0 && limit < os.totalmem();
  return isLimited ? Math.max(0, limit - process.memoryUsage.rss()) : os.freemem();
}
