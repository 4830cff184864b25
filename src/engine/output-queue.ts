// Deltas of one request that its reader has not taken yet.

import type { OutputDelta } from './output-processor.ts';

interface Reader {
  resolve(deltas: readonly OutputDelta[]): void;
  reject(reason: unknown): void;
}

/** Bounded by the request: it adds at most n * max_tokens deltas. */
export class OutputQueue {
  #deltas: OutputDelta[] = [];
  #failure: { readonly reason: unknown } | null = null;
  /** Null while nobody waits. */
  #reader: Reader | null = null;

  push(delta: OutputDelta): void {
    const reader = this.#takeReader();
    if (reader === null) this.#deltas.push(delta);
    else reader.resolve([delta]);
  }

  /** Makes `take` throw `reason` once all earlier deltas are taken. */
  fail(reason: unknown): void {
    this.#failure ??= { reason };
    this.#takeReader()?.reject(this.#failure.reason);
  }

  /** All that have come; where there are none, the next one. There is one reader. */
  take(): Promise<readonly OutputDelta[]> {
    return new Promise((resolve, reject) => {
      if (this.#deltas.length > 0) resolve(this.#deltas);
      else if (this.#failure !== null) reject(this.#failure.reason);
      else this.#reader = { resolve, reject };
      this.#deltas = [];
    });
  }

  #takeReader(): Reader | null {
    const reader = this.#reader;
    this.#reader = null;
    return reader;
  }
}
