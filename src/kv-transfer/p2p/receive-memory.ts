// Where blocks come in at D: the buffer first, then the pool, then nowhere. Both lie in one region of the native transfer
// engine, the pool behind the buffer; decode-side.ts takes an area a transfer.

import { KvBuffer } from './kv-buffer.ts';
import { MemoryPool, PoolFullError, type PoolStats } from './memory-pool.ts';

/** Room for the blocks of one transfer. */
export interface Area {
  readonly place: 'buffer' | 'pool';
  /** Byte offset of each block in the region: its layers lie behind each other. */
  readonly offsets: Float64Array;
}

export class ReceiveMemory {
  /** Size of the region. */
  readonly bytes: number;
  readonly #buffer: KvBuffer;
  readonly #pool: MemoryPool;
  readonly #poolStart: number;
  readonly #slotBytes: number;
  #areas = 0;

  /** @param slotBytes of one block over all layers. */
  constructor(bufferBytes: number, poolBytes: number, slotBytes: number) {
    this.#slotBytes = slotBytes;
    this.#buffer = new KvBuffer(bufferBytes, slotBytes);
    this.#pool = new MemoryPool(poolBytes);
    this.#poolStart = this.#buffer.numSlots * slotBytes;
    this.bytes = this.#poolStart + poolBytes;
  }

  get areas(): number {
    return this.#areas;
  }

  get bufferUsedBytes(): number {
    return this.#buffer.usedBytes;
  }

  get pool(): PoolStats {
    return this.#pool.stats;
  }

  /** Whether there is room for so many blocks when nothing else is there. */
  couldHold(numBlocks: number): boolean {
    const { capacityBytes } = this.#pool.stats;
    const inPool = Math.floor(capacityBytes / MemoryPool.blockBytes(this.#slotBytes));
    return numBlocks <= Math.max(this.#buffer.numSlots, inPool);
  }

  /** Null when both are full. */
  take(numBlocks: number): Area | null {
    const inBuffer = this.#buffer.take(numBlocks);
    const offsets = inBuffer ?? this.#takeFromPool(numBlocks);
    if (offsets === null) return null;
    this.#areas += 1;
    return { place: inBuffer === null ? 'pool' : 'buffer', offsets };
  }

  /** Takes an area back: nothing writes into it any more. */
  give({ place, offsets }: Area): void {
    this.#areas -= 1;
    if (place === 'buffer') this.#buffer.give(offsets);
    else this.#giveToPool(offsets);
  }

  /** Block by block, so that pieces in between are of use. */
  #takeFromPool(numBlocks: number): Float64Array | null {
    const { capacityBytes, usedBytes } = this.#pool.stats;
    if (numBlocks * MemoryPool.blockBytes(this.#slotBytes) > capacityBytes - usedBytes) return null;
    const offsets = new Float64Array(numBlocks);
    for (let index = 0; index < numBlocks; index += 1) {
      try {
        offsets[index] = this.#poolStart + this.#pool.allocate(this.#slotBytes);
      } catch (error) {
        if (!(error instanceof PoolFullError)) throw error;
        this.#giveToPool(offsets.subarray(0, index));
        return null;
      }
    }
    return offsets;
  }

  #giveToPool(offsets: Float64Array): void {
    for (const offset of offsets) this.#pool.free(offset - this.#poolStart);
  }
}
