// A cache of bounded size: what was used longest ago goes first.

export class LruCache<Key, Value> {
  readonly #maxSize: number;
  readonly #sizeOf: (value: Value) => number;
  readonly #values = new Map<Key, Value>();
  #size = 0;

  /** @param sizeOf what a value counts of `maxSize`; one that is larger than that is not kept */
  constructor(maxSize: number, sizeOf: (value: Value) => number = () => 1) {
    this.#maxSize = maxSize;
    this.#sizeOf = sizeOf;
  }

  get(key: Key): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  set(key: Key, value: Value): void {
    this.#delete(key);
    const size = this.#sizeOf(value);
    // Everything else would go for it in vain.
    if (size > this.#maxSize) return;
    this.#values.set(key, value);
    this.#size += size;
    for (const oldest of this.#values.keys()) {
      if (this.#size <= this.#maxSize) return;
      this.#delete(oldest);
    }
  }

  /** The one used last at the end. */
  entries(): (readonly [Key, Value])[] {
    return [...this.#values];
  }

  #delete(key: Key): void {
    const value = this.#values.get(key);
    if (value === undefined) return;
    this.#size -= this.#sizeOf(value);
    this.#values.delete(key);
  }
}
