// The last pairs of instances that served a request together: what the page draws as lines.

import type { Instance } from './instance.ts';

const MAX_KEPT = 64;

interface RecentTransfer {
  readonly prefill: string;
  readonly decode: string;
  /** Unix milliseconds. */
  readonly at: number;
  /** From the request to the head of the answer. */
  readonly milliseconds: number;
}

export class RecentTransfers {
  readonly #kept: RecentTransfer[] = [];

  get all(): readonly RecentTransfer[] {
    return this.#kept;
  }

  add(prefill: Instance, decode: Instance, milliseconds: number): void {
    const rounded = Math.round(1000 * milliseconds) / 1000;
    this.#kept.push({
      prefill: prefill.httpAddress,
      decode: decode.httpAddress,
      at: Date.now(),
      milliseconds: rounded,
    });
    if (this.#kept.length > MAX_KEPT) this.#kept.shift();
  }
}
