// The receive buffer of D, kv_buffer_size bytes: slots of one block over all layers. It knows offsets only;
// receive-memory.ts asks it.

export class KvBuffer {
  readonly slotBytes: number;
  readonly numSlots: number;
  /** Slots that were given back; those from `#untouched` on have never been used and cost no memory yet. */
  readonly #returned: number[] = [];
  #untouched = 0;

  constructor(bufferBytes: number, slotBytes: number) {
    this.slotBytes = slotBytes;
    this.numSlots = Math.floor(bufferBytes / slotBytes);
  }

  get numFree(): number {
    return this.#returned.length + this.numSlots - this.#untouched;
  }

  get usedBytes(): number {
    return (this.numSlots - this.numFree) * this.slotBytes;
  }

  /** The offsets of `count` slots, null where not so many are free. */
  take(count: number): Float64Array | null {
    if (count > this.numFree) return null;
    return Float64Array.from({ length: count }, () => this.#takeOne() * this.slotBytes);
  }

  give(offsets: Float64Array): void {
    for (const offset of offsets) this.#returned.push(offset / this.slotBytes);
  }

  #takeOne(): number {
    const returned = this.#returned.pop();
    if (returned !== undefined) return returned;
    this.#untouched += 1;
    return this.#untouched - 1;
  }
}
