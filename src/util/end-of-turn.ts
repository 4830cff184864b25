// Work that waits for the end of a turn of the event loop, of all who have some together: to wait alone costs each an
// immediate, and a pass through the queue of promises before the next.

const waiting: (() => void)[] = [];

/** Calls `work`, which must not throw, when everything else of this turn is done. */
export function atEndOfTurn(work: () => void): void {
  if (waiting.length === 0) setImmediate(doAll);
  waiting.push(work);
}

function doAll(): void {
  for (const work of waiting.splice(0)) work();
}
