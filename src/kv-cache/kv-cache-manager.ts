// Which block belongs to which sequence: finds blocks that already hold a sequence's prefix, grows block tables as
// tokens arrive, and frees them when a sequence ends.

import { BlockPool } from './block-pool.ts';
import { type BlockHash, blockHash, type ExtraKey, ROOT_HASH } from './prefix-hash.ts';

/** The block table of one sequence: block `i` holds its tokens [i * blockSize, (i + 1) * blockSize). */
export interface BlockTable {
  readonly tokens: readonly number[];
  readonly blocks: number[];
  /** The first ones, which no token to come can see: they were given back, and their entries in `blocks` mean nothing. */
  numUnseenBlocks: number;
  /** Names of the full blocks, as far as they were needed; only this manager writes them. */
  readonly blockHashes: BlockHash[];
  /** What the keys and values depend on beside the tokens, in the order of positions. */
  readonly extraKeys: readonly ExtraKey[];
  /** False for a sequence whose every token must be computed; it still leaves its blocks to others. */
  readonly mayReadCache: boolean;
  /** Tokens before the first one whose logits are wanted: only these may come from the cache. */
  readonly numCacheableTokens: number;
}

export interface KvCacheConfig {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly enablePrefixCaching: boolean;
  /** So many tokens, itself included, does a token see at most in any layer; null where some layer sees all. */
  readonly window: number | null;
}

export class KvCacheManager {
  readonly #blockSize: number;
  readonly #isCaching: boolean;
  readonly #window: number | null;
  readonly #pool: BlockPool;

  constructor(config: KvCacheConfig) {
    this.#blockSize = config.blockSize;
    this.#isCaching = config.enablePrefixCaching;
    this.#window = config.window;
    this.#pool = new BlockPool(config.numBlocks);
  }

  get numBlocks(): number {
    return this.#pool.numBlocks;
  }

  get numFreeBlocks(): number {
    return this.#pool.numFree;
  }

  /**
   * Blocks for a sequence that has none: those that hold its prefix, and new ones for up to `maxNewTokens` more:
   * `| cached | new |`. At least the last token is never taken from the cache: its logits are wanted.
   * @returns the number of cached tokens, or null (and no side effect) where the pool has too few blocks.
   */
  admit(table: BlockTable, maxNewTokens: number): number | null {
    const cached = this.#findPrefix(table);
    const numNew = this.#numNewBlocks(table, cached.length, maxNewTokens);
    const numFreeCached = cached.filter((block) => this.#pool.isFree(block)).length;
    if (numNew > this.#pool.numFree - numFreeCached) return null;
    for (const block of cached) this.#pool.share(block);
    table.blocks.push(...cached, ...this.#pool.allocate(numNew)!);
    return cached.length * this.#blockSize;
  }

  /** Whether `admit` would find enough blocks after the sequences `leaving` have been freed. */
  canAdmit(table: BlockTable, maxNewTokens: number, leaving: readonly BlockTable[]): boolean {
    const cached = this.#findPrefix(table);
    const numUses = new Map<number, number>();
    for (const block of leaving.flatMap(ownBlocks)) {
      numUses.set(block, (numUses.get(block) ?? 0) + 1);
    }
    const isFreeThen = (block: number): boolean => this.#pool.numUsers(block) === (numUses.get(block) ?? 0);
    const numFreed = [...numUses.keys()].filter(isFreeThen).length;
    const numFreeCached = cached.filter(isFreeThen).length;
    const numNew = this.#numNewBlocks(table, cached.length, maxNewTokens);
    return numNew <= this.#pool.numFree + numFreed - numFreeCached;
  }

  /**
   * Makes room for the first `numTokens` tokens of a sequence: `| blocks it owns | new blocks |`.
   * @returns false, with nothing changed, where the pool has too few blocks.
   */
  grow(table: BlockTable, numTokens: number): boolean {
    const wanted = Math.ceil(numTokens / this.#blockSize) - table.blocks.length;
    if (wanted <= 0) return true;
    const blocks = this.#pool.allocate(wanted);
    if (blocks === null) return false;
    table.blocks.push(...blocks);
    return true;
  }

  /** Lets others find the full blocks among the first `numTokens` tokens: from now on they will be computed. */
  publish(table: BlockTable, numTokens: number, numPublished: number): void {
    if (!this.#isCaching) return;
    const end = Math.floor(numTokens / this.#blockSize);
    for (let index = Math.floor(numPublished / this.#blockSize); index < end; index += 1) {
      this.#pool.remember(table.blocks[index]!, this.#hashOf(table, index));
    }
  }

  /** Gives the blocks back whose tokens are too old to be seen from `position` or any later one. */
  freeUnseen(table: BlockTable, position: number): void {
    if (this.#window === null) return;
    const end = Math.floor((position - this.#window + 1) / this.#blockSize);
    if (end <= table.numUnseenBlocks) return;
    this.#pool.free(table.blocks.slice(table.numUnseenBlocks, end));
    table.numUnseenBlocks = end;
  }

  /** Gives all blocks of a sequence back; those that were published can be found until they are reused. */
  free(table: BlockTable): void {
    this.#pool.free(ownBlocks(table));
    table.blocks.length = 0;
    table.numUnseenBlocks = 0;
  }

  /** One user more of each block: a transfer that still has to read it. */
  hold(blocks: readonly number[]): void {
    for (const block of blocks) this.#pool.share(block);
  }

  release(blocks: readonly number[]): void {
    this.#pool.free(blocks);
  }

  reset(): void {
    this.#pool.forgetAll();
  }

  #numNewBlocks({ tokens }: BlockTable, numCachedBlocks: number, maxNewTokens: number): number {
    const numTokens = Math.min(tokens.length, numCachedBlocks * this.#blockSize + maxNewTokens);
    return Math.ceil(numTokens / this.#blockSize) - numCachedBlocks;
  }

  #findPrefix(table: BlockTable): number[] {
    if (!this.#isCaching || !table.mayReadCache) return [];
    const blocks: number[] = [];
    const end = Math.floor(table.numCacheableTokens / this.#blockSize);
    for (let index = 0; index < end; index += 1) {
      const block = this.#pool.find(this.#hashOf(table, index));
      if (block === null) break;
      blocks.push(block);
    }
    return blocks;
  }

  #hashOf(table: BlockTable, index: number): BlockHash {
    const { blockHashes: hashes, tokens } = table;
    while (hashes.length <= index) {
      const start = hashes.length * this.#blockSize;
      const block = tokens.slice(start, start + this.#blockSize);
      hashes.push(blockHash(hashes.at(-1) ?? ROOT_HASH, block, start, table.extraKeys));
    }
    return hashes[index]!;
  }
}

function ownBlocks({ blocks, numUnseenBlocks }: BlockTable): readonly number[] {
  return numUnseenBlocks === 0 ? blocks : blocks.slice(numUnseenBlocks);
}
