// Who gives up its blocks when they are short: of the least urgent requests the latest, and of a caller or a group that
// runs more of them than another one first, so that what one of them makes of its many seats does not cost the others theirs.

import type { Request } from './request.ts';

/** @param running not empty. */
export function chooseVictim(running: readonly Request[]): Request {
  const ofCaller = countBy(running, ({ caller }) => caller);
  const ofGroup = countBy(running, ({ group }) => group);
  return running.reduce((a, b) => {
    const order =
      a.priority - b.priority ||
      ofCaller(a) - ofCaller(b) ||
      ofGroup(a) - ofGroup(b) ||
      a.arrival - b.arrival;
    return order > 0 ? a : b;
  });
}

function countBy(
  requests: readonly Request[],
  keyOf: (request: Request) => number,
): (request: Request) => number {
  const counts = new Map<number, number>();
  for (const request of requests) counts.set(keyOf(request), (counts.get(keyOf(request)) ?? 0) + 1);
  return (request) => counts.get(keyOf(request)) ?? 0;
}
