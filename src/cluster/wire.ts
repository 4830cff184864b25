// Reads a message of another process: one msgpack value within bounds, checked by a schema. No message makes it throw, or
// take more memory than the message itself.

import { decode } from '@msgpack/msgpack';
import type * as z from 'zod';
import { zodMessage } from '../util/zod-message.ts';

export type Read<T> =
  | { readonly isValid: true; readonly message: T }
  /** `why` names the field at fault. */
  | { readonly isValid: false; readonly why: string };

/** Messages are flat maps of short texts and numbers. */
const LIMITS = {
  maxStrLength: 2048,
  maxBinLength: 2048,
  maxArrayLength: 64,
  maxMapLength: 64,
  maxExtLength: 16,
};

export function readMessage<T>(bytes: Uint8Array, maxBytes: number, schema: z.ZodType<T>): Read<T> {
  if (bytes.byteLength > maxBytes) {
    return { isValid: false, why: `${bytes.byteLength} bytes, at most ${maxBytes} are read` };
  }
  let value: unknown;
  try {
    value = decode(bytes, LIMITS);
  } catch {
    return { isValid: false, why: 'not one value of msgpack within the limits' };
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return { isValid: true, message: parsed.data };
  // Without the value: it may be a secret, and the reason is logged.
  return { isValid: false, why: zodMessage(parsed.error, undefined, 'message') };
}
