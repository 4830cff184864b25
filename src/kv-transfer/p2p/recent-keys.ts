// Keys of transfers that P has given up or delivered: who asks for one of them need not ask again.

/** Keys beyond are forgotten, the oldest first. */
const MAX_KEYS = 4096;

export class RecentKeys {
  readonly #keys = new Set<string>();

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  add(key: string): void {
    this.#keys.delete(key);
    this.#keys.add(key);
    const [oldest] = this.#keys;
    if (this.#keys.size > MAX_KEYS && oldest !== undefined) this.#keys.delete(oldest);
  }

  delete(key: string): void {
    this.#keys.delete(key);
  }
}
