// Keeps what was used last, up to a number of bytes.

export class BoundedCache<Key, Value> {
  readonly #maxBytes: number;
  readonly #bytesOf: (value: Value) => number;
  /** In the order of their last use. */
  readonly #values = new Map<Key, Value>();
  #bytes = 0;

  constructor(maxBytes: number, bytesOf: (value: Value) => number) {
    this.#maxBytes = maxBytes;
    this.#bytesOf = bytesOf;
  }

  get(key: Key): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  set(key: Key, value: Value): void {
    this.#values.set(key, value);
    this.#bytes += this.#bytesOf(value);
    for (const [oldest, old] of this.#values) {
      if (this.#bytes <= this.#maxBytes || oldest === key) break;
      this.#values.delete(oldest);
      this.#bytes -= this.#bytesOf(old);
    }
  }
}
