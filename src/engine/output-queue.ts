// What the engine has produced for one request and its reader has not taken yet.

import type { OutputDelta } from './output-processor.ts';

/** Unbounded in form, bounded in fact: a request can add no more deltas than n * max_tokens. */
export class OutputQueue {
  #deltas: OutputDelta[] = [];
  #failure: { readonly reason: unknown } | null = null;
  #wake: (() => void) | null = null;

  push(delta: OutputDelta): void {
    this.#deltas.push(delta);
    this.#wake?.();
  }

  /** The reader is thrown `reason`, as it is, once it has taken what came before. */
  fail(reason: unknown): void {
    this.#failure ??= { reason };
    this.#wake?.();
  }

  /** Waits until something is there, then takes all of it. */
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
