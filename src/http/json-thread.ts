// Entry of the thread that makes JSON of large bodies.

import type { Transferable } from 'node:worker_threads';
import { ownMemory, serveCalls } from '../util/call-thread.ts';
import { parseJsonBody } from './json-body.ts';

serveCalls((bytes: Uint8Array) => {
  const value = parseJsonBody(bytes, { isForTemplates: true });
  return { value, transferList: packedLists(value) };
});

/** Lists of token ids, which are the body's own fields or in a list of its own. */
function packedLists(body: unknown): Transferable[] {
  const fields: unknown[] = typeof body === 'object' && body !== null ? Object.values(body) : [];
  return fields.flatMap((field) =>
    [field].flat().flatMap((list) => (list instanceof Int32Array ? ownMemory(list) : [])),
  );
}
