// Which block belongs to which sequence: grows block tables as tokens come, frees them when a sequence leaves.
// The scheduler is its only caller.

import { BlockPool } from './block-pool.ts';

/** The block table of one sequence: block `i` holds its tokens [i * blockSize, (i + 1) * blockSize). */
export interface BlockTable {
  readonly blocks: number[];
}

export class KvCacheManager {
  readonly blockSize: number;
  readonly #pool: BlockPool;

  constructor(numBlocks: number, blockSize: number) {
    this.blockSize = blockSize;
    this.#pool = new BlockPool(numBlocks);
  }

  get numBlocks(): number {
    return this.#pool.numBlocks;
  }

  get numFreeBlocks(): number {
    return this.#pool.numFree;
  }

  /**
   * Makes room for the first `numTokens` tokens of a sequence:
   * `| blocks it owns | new blocks |` with ceil(numTokens / blockSize) in all.
   * @returns false, with nothing changed, where the pool has too few blocks.
   */
  allocate(table: BlockTable, numTokens: number): boolean {
    const wanted = Math.ceil(numTokens / this.blockSize) - table.blocks.length;
    if (wanted <= 0) return true;
    const blocks = this.#pool.allocate(wanted);
    if (blocks === null) return false;
    table.blocks.push(...blocks);
    return true;
  }

  /** Gives all blocks of a sequence back. */
  free(table: BlockTable): void {
    this.#pool.free(table.blocks);
    table.blocks.length = 0;
  }
}
