// Which instances a request has been sent to, and what came of it: no request goes on for ever.

import type { Instance } from './instance.ts';

/** Even the only instance fails no more often for one answer. */
const MAX_FAILURES_PER_INSTANCE = 2;

export class Attempts {
  readonly #failures = new Map<Instance, number>();
  readonly #excluded = new Set<Instance>();
  readonly #full = new Set<Instance>();

  get numFailures(): number {
    return [...this.#failures.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Whether it was asked. */
  has(instance: Instance): boolean {
    return this.#failures.has(instance) || this.#excluded.has(instance) || this.#full.has(instance);
  }

  mayRetry(instance: Instance): boolean {
    return !this.#excluded.has(instance) && (this.#failures.get(instance) ?? 0) < MAX_FAILURES_PER_INSTANCE;
  }

  /** It has failed. */
  add(instance: Instance): void {
    this.#failures.set(instance, (this.#failures.get(instance) ?? 0) + 1);
  }

  /** It is not asked again. */
  exclude(instance: Instance): void {
    this.#excluded.add(instance);
  }

  /** It had no room, and is asked again once all others were. */
  addFull(instance: Instance): void {
    this.#full.add(instance);
  }

  isFull(instance: Instance): boolean {
    return this.#full.has(instance);
  }

  /** Those that had no room are as if they had not been asked. */
  forgetFull(): void {
    this.#full.clear();
  }

  clear(): void {
    this.#failures.clear();
    this.#excluded.clear();
    this.#full.clear();
  }
}
