// Names full blocks by what stands in them and before them, so that equal prefixes find each other's blocks.

import { createHash } from 'node:crypto';

/** Name of a block's whole prefix: 16 bytes of SHA-256 as a binary string. */
export type BlockHash = string;

/** What stands before the first block; a salt gives requests a cache of their own. */
export function rootHash(salt: string | null): BlockHash {
  return digest(Buffer.from(salt === null ? 'root' : `salt:${salt}`));
}

/** Name of a block that holds `tokenIds` behind the prefix `parent`. */
export function blockHash(parent: BlockHash, tokenIds: readonly number[]): BlockHash {
  return digest(Buffer.from(parent, 'latin1'), Buffer.from(Int32Array.from(tokenIds).buffer));
}

function digest(...parts: readonly Buffer[]): BlockHash {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('binary').slice(0, 16);
}
