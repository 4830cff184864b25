// Reads bodies without holding the main thread: small ones at once, larger ones in a thread.

import { MalformedRequestError } from '../errors.ts';
import { BODY_THREAD_LIMITS, MAX_BODY_AT_ONCE } from '../http/json-parser.ts';
import { CallThread, ownMemory } from '../util/call-thread.ts';
import type { LargeBody, ReadBody } from './body-thread.ts';
import type { EndpointAdapter } from './endpoints/endpoint.ts';
import { type RequestBody, readRequestBody } from './request-body.ts';

export class BodyReader {
  readonly #thread = new CallThread<LargeBody, ReadBody>(new URL('./body-thread', import.meta.url), {
    name: 'svc-body',
    ...BODY_THREAD_LIMITS,
  });

  /**
   * Large `bytes` are moved: use those of the result.
   * @throws MalformedRequestError where they are no JSON object.
   */
  async read(endpoint: EndpointAdapter, bytes: unknown): Promise<RequestBody> {
    if (!Buffer.isBuffer(bytes)) throw new MalformedRequestError('The body must be a JSON object');
    if (bytes.length <= MAX_BODY_AT_ONCE) return readRequestBody(endpoint, bytes);
    const order = { path: endpoint.path, bytes };
    const read = await this.#thread.call(order, { transferList: ownMemory(bytes) });
    return { ...read, bytes: Buffer.from(read.bytes.buffer, read.bytes.byteOffset, read.bytes.byteLength) };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
