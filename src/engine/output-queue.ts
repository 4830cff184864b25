// Deltas of one request that its reader has not taken yet.

import type { OutputDelta } from './output-processor.ts';

/** Bounded by the request: it adds at most n * max_tokens deltas. */
export class OutputQueue {
  #deltas: OutputDelta[] = [];
  #failure: { readonly reason: unknown } | null = null;
  #wake: (() => void) | null = null;

  push(delta: OutputDelta): void {
    this.#deltas.push(delta);
    this.#wake?.();
  }

  /** Makes `take` throw `reason` once all earlier deltas are taken. */
  fail(reason: unknown): void {
    this.#failure ??= { reason };
    this.#wake?.();
  }

  async take(): Promise<OutputDelta[]> {
    while (this.#deltas.length === 0) {
      if (this.#failure !== null) throw this.#failure.reason;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }
}
