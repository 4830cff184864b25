// Names a prefix by everything that its keys and values depend on, so that equal prefixes share blocks and others never do.

import { hash } from 'node:crypto';

/** Name of a prefix: 16 bytes of SHA-256 as a binary string. */
export type BlockHash = string;

/**
 * Something other than tokens that keys and values depend on, from the token at `position` on: a cache salt or an
 * adapter from 0, an image from its first placeholder. Its first part says what kind it is: `salt`, `lora`, `image`.
 */
export interface ExtraKey {
  readonly position: number;
  readonly key: readonly [kind: string, value: string];
}

/** Gives requests of the same salt, and nobody else, a cache of their own. */
export function saltKeys(salt: string | null): ExtraKey[] {
  return salt === null ? [] : [{ position: 0, key: ['salt', salt] }];
}

/** Keeps the prefixes of an adapter apart: `digest` names what it is made of, since names are given twice. */
export function adapterKeys(digest: string): ExtraKey[] {
  return [{ position: 0, key: ['lora', digest] }];
}

/** The empty prefix. */
export const ROOT_HASH: BlockHash = '\0'.repeat(16);

/**
 * Name of the prefix that appends `tokenIds`, the first of them at `position`, to the prefix `parent`.
 * @param extraKeys of the whole prompt, in the order of their positions; those that begin among `tokenIds` count here,
 *   those before are part of `parent`.
 */
export function blockHash(
  parent: BlockHash,
  tokenIds: readonly number[],
  position = 0,
  extraKeys: readonly ExtraKey[] = [],
): BlockHash {
  const end = position + tokenIds.length;
  const begun = extraKeys.filter((extra) => extra.position >= position && extra.position < end);
  const bytes = [bytesOf(parent, tokenIds)];
  // JSON marks where each key ends, so that no two lists of keys are written alike.
  if (begun.length > 0)
    bytes.push(Buffer.from(JSON.stringify(begun.map((extra) => [extra.position, ...extra.key]))));
  // In one call: a hash that is fed piece by piece is an object, and making and collecting it costs more than the hashing.
  return hash('sha256', bytes.length === 1 ? bytes[0]! : Buffer.concat(bytes), 'binary').slice(0, 16);
}

function bytesOf(parent: BlockHash, tokenIds: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(parent.length + 4 + 4 * tokenIds.length);
  let at = bytes.write(parent, 'latin1');
  at = bytes.writeInt32LE(tokenIds.length, at);
  for (const tokenId of tokenIds) at = bytes.writeInt32LE(tokenId, at);
  return bytes;
}
