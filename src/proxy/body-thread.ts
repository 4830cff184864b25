// Entry of the thread that reads large bodies.

import { ownMemory, serveCalls } from '../util/call-thread.ts';
import { ENDPOINTS } from './endpoints/endpoints.ts';
import { type RequestBody, readRequestBody } from './request-body.ts';

export interface LargeBody {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** A body as it passes between threads. */
export type ReadBody = Omit<RequestBody, 'bytes'> & { readonly bytes: Uint8Array };

serveCalls(({ path, bytes }: LargeBody) => {
  const endpoint = ENDPOINTS.find((each) => each.path === path)!;
  const body = readRequestBody(endpoint, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  const { count, numTokens, blockHashes } = body.prompt;
  const value: ReadBody = { ...body, prompt: { count, numTokens, blockHashes } };
  return { value, transferList: ownMemory(body.bytes) };
});
