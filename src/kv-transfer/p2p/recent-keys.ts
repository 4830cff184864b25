// Keys (or request ids, for all keys of a request) of transfers that are over: P tells who asks for one that it will
// never come, D refuses what comes too late for its request.

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
