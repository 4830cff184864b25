// Parses request bodies without holding the main thread: small ones at once, larger ones in a thread.

import { setImmediate } from 'node:timers/promises';
import { CallThread, ownMemory } from '../util/call-thread.ts';
import { yieldTurn } from '../util/yield-turn.ts';
import { parseJsonBody } from './json-body.ts';

/** Bytes of a body that are parsed in a few milliseconds at most; larger ones go to a thread. */
export const MAX_BODY_AT_ONCE = 64 * 1024;
/** Of a thread that reads bodies: one takes a fraction of a second on a machine that is not busy. */
export const BODY_THREAD_LIMITS = { deadlineMs: 30_000, maxWaiting: 64 } as const;

export class JsonParser {
  readonly #thread = new CallThread<Uint8Array, unknown>(new URL('./json-thread', import.meta.url), {
    name: 'svc-json',
    ...BODY_THREAD_LIMITS,
  });

  /** As `parseJsonBody` for templates. Large `bytes` are gone afterwards. */
  async parse(bytes: Buffer): Promise<unknown> {
    if (bytes.length <= MAX_BODY_AT_ONCE) {
      await yieldTurn();
      const value = parseJsonBody(bytes, { isForTemplates: true });
      await yieldTurn();
      return value;
    }
    const value = await this.#thread.call(bytes, { transferList: ownMemory(bytes) });
    // Receiving the value has used up this turn of the event loop.
    await setImmediate();
    return value;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
