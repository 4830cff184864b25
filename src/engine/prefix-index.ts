// Which beginnings of prompts an engine has computed lately, as far as the main thread can tell: hashes of whole blocks, as many
// as its KV cache has, the least recently used forgotten first as it forgets them. A guess that is wrong costs time, never a byte.

import type { ExtraKey } from '../kv-cache/prefix-hash.ts';

/** What keys and values of a prompt follow from. */
export interface Prefixed {
  readonly promptTokenIds: readonly number[];
  readonly extraKeys: readonly ExtraKey[];
}

/** [whole blocks] Each names its block and all before it, in 32 bits: who meets a namesake is sent to the wrong engine. */
export function prefixHashes({ promptTokenIds, extraKeys }: Prefixed, blockSize: number): number[] {
  const hashes: number[] = [];
  let hash = extraKeys.length === 0 ? 0 : hashOf(JSON.stringify(extraKeys));
  for (const [index, tokenId] of promptTokenIds.entries()) {
    hash = mix(hash, tokenId);
    if ((index + 1) % blockSize === 0) hashes.push(hash);
  }
  return hashes;
}

function hashOf(text: string): number {
  let hash = 0;
  for (let index = 0; index < text.length; index++) hash = mix(hash, text.charCodeAt(index));
  return hash;
}

/** A round of MurmurHash3. */
function mix(hash: number, value: number): number {
  const scattered = Math.imul(rotated(Math.imul(value, 0xcc9e2d51), 15), 0x1b873593);
  return (Math.imul(rotated(hash ^ scattered, 13), 5) + 0xe6546b64) | 0;
}

function rotated(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}

export class PrefixIndex {
  readonly #maxBlocks: number;
  /** The least recently used first; a block is always used before those that it follows. */
  readonly #hashes = new Set<number>();

  constructor(maxBlocks: number) {
    this.#maxBlocks = maxBlocks;
  }

  get size(): number {
    return this.#hashes.size;
  }

  /** How many of the first blocks are known. */
  numKnown(hashes: readonly number[]): number {
    const unknown = hashes.findIndex((hash) => !this.#hashes.has(hash));
    return unknown < 0 ? hashes.length : unknown;
  }

  add(hashes: readonly number[]): void {
    // From the end, so that what is forgotten first is the end of a prompt and never its beginning.
    for (const hash of hashes.slice(0, this.#maxBlocks).toReversed()) {
      this.#hashes.delete(hash);
      this.#hashes.add(hash);
    }
    for (const hash of this.#hashes) {
      if (this.#hashes.size <= this.#maxBlocks) break;
      this.#hashes.delete(hash);
    }
  }

  clear(): void {
    this.#hashes.clear();
  }
}
