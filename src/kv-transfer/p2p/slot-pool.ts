// The receive memory of D, as offsets: slots of one size, each for one block over all layers, in two regions of which the
// buffer is used first. All slots are alike, so every free one is of use and nothing is rounded up.

export type SlotLocation = 'buffer' | 'pool';

/** Room for the blocks of one transfer, all in one region. */
export interface Slots {
  readonly location: SlotLocation;
  /** Byte offset of each slot in the receive memory; the layers of a block follow each other in it. */
  readonly offsets: Float64Array;
}

export class SlotPool {
  /** Size of the receive memory. */
  readonly bytes: number;
  readonly #buffer: Region;
  readonly #pool: Region;
  #numTaken = 0;

  /** @param slotBytes of one block over all layers. */
  constructor(bufferBytes: number, poolBytes: number, slotBytes: number) {
    this.#buffer = new Region(0, Math.floor(bufferBytes / slotBytes), slotBytes);
    this.#pool = new Region(this.#buffer.end, Math.floor(poolBytes / slotBytes), slotBytes);
    this.bytes = this.#pool.end;
  }

  /** How many `Slots` are taken now. */
  get numTaken(): number {
    return this.#numTaken;
  }

  /** Of the buffer, which is the beginning of the receive memory. */
  get bufferBytes(): number {
    return this.#buffer.end;
  }

  get bufferUsedBytes(): number {
    return this.#buffer.usedBytes;
  }

  get poolUsedBytes(): number {
    return this.#pool.usedBytes;
  }

  /** Whether so many blocks fit when nothing else is there. */
  couldHold(numBlocks: number): boolean {
    return numBlocks <= Math.max(this.#buffer.numSlots, this.#pool.numSlots);
  }

  /** Null when neither region has so many free slots. */
  take(numBlocks: number): Slots | null {
    const isInBuffer = numBlocks <= this.#buffer.numFree;
    const region = isInBuffer ? this.#buffer : this.#pool;
    if (numBlocks > region.numFree) return null;
    this.#numTaken += 1;
    return { location: isInBuffer ? 'buffer' : 'pool', offsets: region.take(numBlocks) };
  }

  /** Takes slots back: nothing writes into them any more. */
  give({ location, offsets }: Slots): void {
    this.#numTaken -= 1;
    (location === 'buffer' ? this.#buffer : this.#pool).give(offsets);
  }
}

class Region {
  readonly numSlots: number;
  readonly #start: number;
  readonly #slotBytes: number;
  /** Offsets that were given back; slots from `#numTouched` on have never been used and cost no memory yet. */
  readonly #returned: number[] = [];
  #numTouched = 0;

  constructor(start: number, numSlots: number, slotBytes: number) {
    this.#start = start;
    this.numSlots = numSlots;
    this.#slotBytes = slotBytes;
  }

  get end(): number {
    return this.#start + this.numSlots * this.#slotBytes;
  }

  get numFree(): number {
    return this.#returned.length + this.numSlots - this.#numTouched;
  }

  get usedBytes(): number {
    return (this.numSlots - this.numFree) * this.#slotBytes;
  }

  /** At most `numFree`. */
  take(count: number): Float64Array {
    return Float64Array.from({ length: count }, () => this.#returned.pop() ?? this.#touch());
  }

  give(offsets: Float64Array): void {
    for (const offset of offsets) this.#returned.push(offset);
  }

  #touch(): number {
    this.#numTouched += 1;
    return this.#start + (this.#numTouched - 1) * this.#slotBytes;
  }
}
