// What both instances call one transfer, and how they make sure that they mean the same prompt.

import { createHash } from 'node:crypto';
import { type PairedRequestId, parseRequestId } from '../../cluster/request-id.ts';

/** `<request id of the proxy>#<number of the prompt>`. */
export function transferKey(id: PairedRequestId, promptIndex: number): string {
  return `${id.id}#${promptIndex}`;
}

/** The id in a key that another instance sent; null where it is no key. */
export function idOfKey(key: string): PairedRequestId | null {
  const [, text = ''] = /^(.*)#(?:0|[1-9][0-9]{0,8})$/.exec(key) ?? [];
  const id = parseRequestId(text);
  return id?.id === text ? id : null;
}

/** Whether a key belongs to this request id. */
export function isKeyOf(key: string, id: PairedRequestId): boolean {
  return key.startsWith(`${id.id}#`);
}

/** The first half of the SHA-256 of the token ids (32-bit, little-endian), in hexadecimal. */
export function promptHash(tokenIds: readonly number[]): string {
  const digest = createHash('sha256').update(Int32Array.from(tokenIds)).digest('hex');
  return digest.slice(0, 32);
}
