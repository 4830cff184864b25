// Which KV blocks are free, which are shared, and which still hold a prefix that somebody may ask for again.
// The KV cache manager is its only caller; ids only, no memory.

import type { BlockHash } from './prefix-hash.ts';

/**
 * A fixed number of blocks. A block in use counts its users; a free one waits in a list for the next allocation,
 * least recently used first, and can be taken back by its hash until then. Free blocks without a hash go to the
 * front, so that little memory is touched under light load and no prefix is lost while others are useless.
 */
export class BlockPool {
  readonly numBlocks: number;
  readonly #refCounts: Int32Array;
  /** Links of the free list; the entry past the last block is its head and tail. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #hashes: (BlockHash | null)[];
  readonly #byHash = new Map<BlockHash, number>();
  #numFree: number;

  constructor(numBlocks: number) {
    this.numBlocks = numBlocks;
    this.#refCounts = new Int32Array(numBlocks);
    const size = numBlocks + 1;
    this.#next = Int32Array.from({ length: size }, (_, block) => (block + 1) % size);
    this.#previous = Int32Array.from({ length: size }, (_, block) => (block + numBlocks) % size);
    // Blocks 0, 1, ... behind the head, which stands at numBlocks.
    this.#hashes = new Array<BlockHash | null>(numBlocks).fill(null);
    this.#numFree = numBlocks;
  }

  get numFree(): number {
    return this.#numFree;
  }

  /** Free blocks that hold a prefix, and blocks in use that do. */
  get numCached(): number {
    return this.#byHash.size;
  }

  /** @returns `count` block ids with one user each, or null (and no side effect) where fewer are free. */
  allocate(count: number): number[] | null {
    if (count > this.#numFree) return null;
    const blocks: number[] = [];
    while (blocks.length < count) {
      const block = this.#next[this.numBlocks]!;
      this.#forget(block);
      this.#unlink(block);
      this.#refCounts[block] = 1;
      blocks.push(block);
    }
    return blocks;
  }

  /** The block that holds the prefix, free or in use; null where none does. */
  find(hash: BlockHash): number | null {
    return this.#byHash.get(hash) ?? null;
  }

  numUsers(block: number): number {
    return this.#refCounts[block]!;
  }

  isFree(block: number): boolean {
    return this.#refCounts[block] === 0;
  }

  share(block: number): void {
    if (this.isFree(block)) this.#unlink(block);
    this.#refCounts[block]! += 1;
  }

  /** Names the prefix that a block in use holds. Where two blocks hold the same, the first keeps the name. */
  remember(block: number, hash: BlockHash): void {
    if (this.#byHash.has(hash)) return;
    this.#hashes[block] = hash;
    this.#byHash.set(hash, block);
  }

  /** One user less of each block; of those that nobody uses any more the last one is reused first. */
  free(blocks: readonly number[]): void {
    for (let index = blocks.length - 1; index >= 0; index -= 1) {
      const block = blocks[index]!;
      if (!(this.#refCounts[block]! > 0))
        throw new Error(`block ${block} is freed twice or was never in the pool`);
      this.#refCounts[block]! -= 1;
      if (this.#refCounts[block] === 0) this.#link(block);
    }
  }

  /** Forgets every prefix; blocks in use stay with their users. */
  forgetAll(): void {
    this.#byHash.clear();
    this.#hashes.fill(null);
  }

  #forget(block: number): void {
    const hash = this.#hashes[block];
    if (hash == null) return;
    this.#byHash.delete(hash);
    this.#hashes[block] = null;
  }

  /** A block with a prefix goes to the end of the free list, one without to its front. */
  #link(block: number): void {
    const head = this.numBlocks;
    const before = this.#hashes[block] === null ? head : this.#previous[head]!;
    const after = this.#next[before]!;
    this.#next[before] = block;
    this.#previous[block] = before;
    this.#next[block] = after;
    this.#previous[after] = block;
    this.#numFree += 1;
  }

  #unlink(block: number): void {
    const before = this.#previous[block]!;
    const after = this.#next[block]!;
    this.#next[before] = after;
    this.#previous[after] = before;
    this.#numFree -= 1;
  }
}
