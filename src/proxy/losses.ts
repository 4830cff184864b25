// The instances that ended with a request, one after the other: it may be what ends them, or what they ran on has ended with them.

import type { Instance } from './instance.ts';

/** A request that may have ended so many instances is sent to no other one. */
const MAX_LOSSES = 3;
/** Milliseconds in which all that an instance has said before its end is heard. */
const HEARD_BY = 500;

export class Losses {
  readonly #addresses = new Set<string>();
  /** By performance.now(). */
  #lastAt = 0;

  /** Where the instances took HTTP requests, for the log. */
  get addresses(): readonly string[] {
    return [...this.#addresses];
  }

  get isFull(): boolean {
    return this.#addresses.size >= MAX_LOSSES;
  }

  add({ httpAddress }: Instance): void {
    this.#addresses.add(httpAddress);
    this.#lastAt = performance.now();
  }

  /** The request has got somewhere. */
  clear(): void {
    this.#addresses.clear();
  }

  /**
   * Whether an instance may get the request. The last one that it may end has to have outlived the one before: those of one machine end
   * at once, and not one of them because of a request.
   */
  allow({ seenAt }: Instance): boolean {
    return this.#addresses.size < MAX_LOSSES - 1 || seenAt > this.#lastAt + HEARD_BY;
  }
}
