// What the engine has produced for one request and its reader has not taken yet.

import type { OutputDelta } from './output-processor.ts';

/** Unbounded in form, bounded in fact: a request can add no more deltas than n * max_tokens. */
export class OutputQueue {
  #deltas: OutputDelta[] = [];
  #error: Error | null = null;
  #wake: (() => void) | null = null;

  push(delta: OutputDelta): void {
    this.#deltas.push(delta);
    this.#wake?.();
  }

  /** The reader gets `error` once it has taken what came before. */
  fail(error: Error): void {
    this.#error ??= error;
    this.#wake?.();
  }

  /** Waits until something is there, then takes all of it. */
  async take(): Promise<OutputDelta[]> {
    while (this.#deltas.length === 0) {
      if (this.#error !== null) throw this.#error;
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
