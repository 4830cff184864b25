// Parses request bodies where that disturbs nobody: small ones at once, larger ones in a thread.

import { setImmediate } from 'node:timers/promises';
import { BodyThread } from './body-thread.ts';
import { parseJsonBody } from './json-body.ts';

/** Bytes that are parsed in about a millisecond. */
const MAX_AT_ONCE = 64 * 1024;

export class JsonParser {
  readonly #thread = new BodyThread(new URL('./json-thread', import.meta.url));

  /** As `parseJsonBody`. Large `bytes` are gone afterwards. */
  async parse(bytes: Buffer): Promise<unknown> {
    if (bytes.length <= MAX_AT_ONCE) return parseJsonBody(bytes);
    const value = await this.#thread.read(bytes);
    // Taking the value over was work enough for one turn.
    await setImmediate();
    return value;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
