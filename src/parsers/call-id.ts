// Ids of calls: a function of the answer that they are in, so that another instance that continues its stream gives the same.

import { createHash } from 'node:crypto';

const LENGTH = 24;

/**
 * @param answer of which answer, and of which of its samples.
 * @param idLength exact length, where the model knows only such ids.
 */
export function callId(answer: string, call: number, idLength: number | null): string {
  const hash = createHash('sha256').update(`${answer}/${call}`).digest('hex');
  return idLength === null ? `call_${hash.slice(0, LENGTH)}` : hash.slice(0, idLength);
}
