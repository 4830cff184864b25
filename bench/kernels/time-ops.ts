// How long ops take, without the calls that hand them to the backend.

import type { Ops } from '../../src/ops/ops.ts';

/** Seconds that the ops which `body` calls ran. */
export function timeOps(ops: Ops, body: () => void): number {
  const before = busySeconds(ops);
  ops.scope(body);
  ops.mark().read();
  return busySeconds(ops) - before;
}

function busySeconds({ busySeconds: seconds, backend }: Ops): number {
  if (seconds === null) throw new Error(`the ${backend} backend does not measure its ops`);
  return seconds;
}
