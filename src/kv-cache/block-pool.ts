// Which KV blocks are free. The KV cache manager is its only caller; ids only, no memory.

/** A fixed number of blocks, handed out last-freed-first so that little memory is touched under light load. */
export class BlockPool {
  readonly numBlocks: number;
  readonly #free: number[];
  readonly #isFree: Uint8Array;

  constructor(numBlocks: number) {
    this.numBlocks = numBlocks;
    this.#free = Array.from({ length: numBlocks }, (_, index) => numBlocks - 1 - index);
    this.#isFree = new Uint8Array(numBlocks).fill(1);
  }

  get numFree(): number {
    return this.#free.length;
  }

  /** @returns `count` block ids, or null (and no side effect) where fewer are free. */
  allocate(count: number): number[] | null {
    if (count > this.#free.length) return null;
    const blocks = this.#free.splice(this.#free.length - count, count).reverse();
    for (const block of blocks) this.#isFree[block] = 0;
    return blocks;
  }

  /** Takes blocks back; the last of `blocks` is freed first, so the first one is the next to be handed out. */
  free(blocks: readonly number[]): void {
    for (let index = blocks.length - 1; index >= 0; index -= 1) {
      const block = blocks[index]!;
      if (this.#isFree[block] !== 0)
        throw new Error(`block ${block} is freed twice or was never in the pool`);
      this.#isFree[block] = 1;
      this.#free.push(block);
    }
  }
}
