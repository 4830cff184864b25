// The requests that are under way, so that a shutdown can wait for them and there are never too many. proxy-server.ts
// owns it.

import { OverloadedError, ShuttingDownError, type SvcError } from '../errors.ts';
import { within } from '../util/within.ts';
import type { Call } from './call.ts';

const RETRY_AFTER_SECONDS = 1;

export class Calls {
  readonly #open = new Set<Call>();
  readonly #max: number;
  #idle: (() => void)[] = [];
  #takesMore = true;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#open.size;
  }

  /** False while those that are left are finished. */
  get takesMore(): boolean {
    return this.#takesMore;
  }

  takeNoMore(): void {
    this.#takesMore = false;
  }

  /** @throws ShuttingDownError where none is taken any more. */
  checkOpen(): void {
    if (!this.#takesMore) throw new ShuttingDownError('The proxy is shutting down and takes no new requests');
  }

  /** @throws ShuttingDownError, or OverloadedError where there are as many as may be. */
  checkRoom(): void {
    this.checkOpen();
    if (this.#open.size < this.#max) return;
    throw new OverloadedError(
      `The proxy has ${this.#max} requests under way (--max-in-flight): come again later`,
      {
        retryAfter: RETRY_AFTER_SECONDS,
      },
    );
  }

  add(call: Call): void {
    this.#open.add(call);
  }

  delete(call: Call): void {
    this.#open.delete(call);
    if (this.#open.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  stopAll(reason: SvcError): void {
    for (const call of this.#open) call.stop(reason);
  }

  /** Resolves true when there are none, false when that takes longer than `deadlineMs`. */
  async idle(deadlineMs: number): Promise<boolean> {
    if (this.#open.size === 0) return true;
    return within(deadlineMs, new Promise((resolve) => this.#idle.push(resolve)));
  }
}
