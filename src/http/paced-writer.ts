// Writes to a client no faster than it reads, and cuts off a client that takes nothing for too long: bytes that nobody
// reads would fill the memory, and a connection that never ends would hold up a shutdown.

import type { ServerResponse } from 'node:http';

export class PacedWriter {
  readonly #response: ServerResponse;
  readonly #maxStallMs: number;
  #draining: Promise<void> | null = null;

  constructor(response: ServerResponse, maxStallMs: number) {
    this.#response = response;
    this.#maxStallMs = maxStallMs;
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  /** False: wait for `drained` before the next bytes. */
  get hasRoom(): boolean {
    return !this.isOpen || !this.#response.writableNeedDrain;
  }

  /** As `hasRoom` afterwards. */
  write(bytes: string | Buffer): boolean {
    return !this.isOpen || this.#response.write(bytes);
  }

  /** Resolves when the client has caught up or is gone. */
  drained(): Promise<void> {
    if (!this.isOpen || !this.#response.writableNeedDrain) return Promise.resolve();
    // Several writers may wait for one client.
    this.#draining ??= this.#untilDrained().finally(() => {
      this.#draining = null;
    });
    return this.#draining;
  }

  /** Ends a stream whose client has caught up, but for the last `bytes`. */
  end(bytes: string | Buffer = ''): void {
    if (!this.isOpen) return;
    this.#response.end(bytes);
    const timer = this.#cutOffLater();
    this.#response.once('close', () => clearTimeout(timer));
  }

  #untilDrained(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve) => {
      const timer = this.#cutOffLater();
      const done = (): void => {
        clearTimeout(timer);
        response.off('drain', done).off('close', done);
        resolve();
      };
      response.on('drain', done).on('close', done);
    });
  }

  #cutOffLater(): NodeJS.Timeout {
    return setTimeout(() => this.#response.destroy(), this.#maxStallMs).unref();
  }
}
