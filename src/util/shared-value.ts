// Values in memory that threads share: a message with them costs the same however large they are.

import { deserialize, serialize } from 'node:v8';

export function packShared(value: unknown): SharedArrayBuffer {
  const bytes = serialize(value);
  const memory = new SharedArrayBuffer(bytes.length);
  new Uint8Array(memory).set(bytes);
  return memory;
}

/** What was packed, which must have been a `T`; its arrays may be views of the memory, and are not to be written. */
export function unpackShared<T>(memory: SharedArrayBuffer): T {
  return deserialize(Buffer.from(memory));
}
