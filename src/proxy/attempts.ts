// Which instances a request has been sent to, and how often: no request goes on for ever.

import type { Instance } from './instance.ts';

/** Even the only instance is not asked more often for one answer. */
const MAX_PER_INSTANCE = 2;

export class Attempts {
  readonly #perInstance = new Map<Instance, number>();

  /** An instance that was excluded counts as if it had been asked as often as it may be. */
  get total(): number {
    return [...this.#perInstance.values()].reduce((sum, count) => sum + count, 0);
  }

  has(instance: Instance): boolean {
    return this.#perInstance.has(instance);
  }

  mayRetry(instance: Instance): boolean {
    return (this.#perInstance.get(instance) ?? 0) < MAX_PER_INSTANCE;
  }

  add(instance: Instance): void {
    this.#perInstance.set(instance, (this.#perInstance.get(instance) ?? 0) + 1);
  }

  exclude(instance: Instance): void {
    this.#perInstance.set(instance, MAX_PER_INSTANCE);
  }

  clear(): void {
    this.#perInstance.clear();
  }
}
