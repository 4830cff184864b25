// A buddy allocator over one region of host memory, in which D receives what its buffer has no room for. It knows
// offsets only; receive-memory.ts asks it.

/** The smallest piece of the region that is given out, in bytes. */
const MIN_BLOCK_BYTES = 512;

export class PoolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** A size that is no size, or a region that cannot be halved down to the smallest block. */
export class PoolSizeError extends PoolError {}

/** More than the whole region. */
export class PoolTooSmallError extends PoolError {}

/** No free block is large enough now. */
export class PoolFullError extends PoolError {}

/** Nothing was given out at this offset. */
export class PoolOffsetError extends PoolError {}

export interface PoolStats {
  readonly capacityBytes: number;
  /** What is given out, rounded up to blocks. */
  readonly usedBytes: number;
  readonly allocations: number;
  readonly largestFreeBytes: number;
  /** How often there was no room, since the start. */
  readonly refused: number;
}

export class MemoryPool {
  readonly #capacityBytes: number;
  /** By order: the offsets of free blocks of 512 << order bytes. */
  readonly #free: Set<number>[] = [];
  /** Offset of each block given out -> its order. */
  readonly #taken = new Map<number, number>();
  #usedBytes = 0;
  #refused = 0;

  /** @param capacityBytes a power of two of at least 512, or 0 for a pool that has nothing. */
  constructor(capacityBytes: number) {
    const order = Math.log2(capacityBytes / MIN_BLOCK_BYTES);
    if (capacityBytes !== 0 && !(Number.isInteger(order) && order >= 0)) {
      throw new PoolSizeError(
        `a pool has a power of two of at least ${MIN_BLOCK_BYTES} bytes, not ${capacityBytes}`,
      );
    }
    this.#capacityBytes = capacityBytes;
    if (capacityBytes === 0) return;
    for (let level = 0; level <= order; level += 1) this.#free.push(new Set());
    this.#free[order]!.add(0);
  }

  /** What a request for `bytes` takes of the pool. */
  static blockBytes(bytes: number): number {
    return MIN_BLOCK_BYTES * 2 ** orderOf(bytes);
  }

  get stats(): PoolStats {
    const largest = this.#free.findLastIndex((offsets) => offsets.size > 0);
    return {
      capacityBytes: this.#capacityBytes,
      usedBytes: this.#usedBytes,
      allocations: this.#taken.size,
      largestFreeBytes: largest < 0 ? 0 : sizeOf(largest),
      refused: this.#refused,
    };
  }

  /**
   * @returns the offset of at least `bytes` bytes, a multiple of their size rounded up to a power of two.
   * @throws PoolSizeError, PoolTooSmallError or PoolFullError.
   */
  allocate(bytes: number): number {
    if (!(bytes > 0)) throw new PoolSizeError(`a size must be greater than 0, got ${bytes}`);
    const order = orderOf(bytes);
    if (order >= this.#free.length) {
      throw new PoolTooSmallError(`${bytes} bytes do not fit into a pool of ${this.#capacityBytes}`);
    }
    let level = this.#free.findIndex((offsets, index) => index >= order && offsets.size > 0);
    if (level < 0) {
      this.#refused += 1;
      throw new PoolFullError(`no ${sizeOf(order)} bytes are free in one piece`);
    }
    const offset = first(this.#free[level]!);
    this.#free[level]!.delete(offset);
    // The lower half is halved further, the upper halves stay free.
    while (level > order) {
      level -= 1;
      this.#free[level]!.add(offset + sizeOf(level));
    }
    this.#taken.set(offset, order);
    this.#usedBytes += sizeOf(order);
    return offset;
  }

  /** @throws PoolOffsetError for what is not given out. */
  free(offset: number): void {
    let order = this.#taken.get(offset);
    if (order === undefined) throw new PoolOffsetError(`nothing was given out at ${offset}`);
    this.#taken.delete(offset);
    this.#usedBytes -= sizeOf(order);
    let start = offset;
    // Two free halves are one free block again.
    while (order < this.#free.length - 1 && this.#free[order]!.delete(buddyOf(start, order))) {
      start = Math.min(start, buddyOf(start, order));
      order += 1;
    }
    this.#free[order]!.add(start);
  }
}

function orderOf(bytes: number): number {
  return Math.max(0, Math.ceil(Math.log2(bytes / MIN_BLOCK_BYTES)));
}

function sizeOf(order: number): number {
  return MIN_BLOCK_BYTES * 2 ** order;
}

function buddyOf(offset: number, order: number): number {
  const size = sizeOf(order);
  return (offset / size) % 2 === 0 ? offset + size : offset - size;
}

function first(offsets: ReadonlySet<number>): number {
  for (const offset of offsets) return offset;
  throw new Error('an empty set has no first');
}
