// Writes to a client no faster than it reads, and cuts off a client that takes nothing for too long: bytes that nobody
// reads would fill the memory, and a connection that never ends would hold up a shutdown.

import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A client that takes nothing for this long counts as gone. */
export const DEFAULT_WRITE_TIMEOUT_MS = 60_000;

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
    return this.#full === null;
  }

  /** As `hasRoom` afterwards; the headers have left. */
  write(bytes: string | Buffer): boolean {
    // An empty chunk would end the answer.
    if (!this.isOpen || bytes.length === 0) return this.hasRoom;
    return typeof bytes === 'string' ? writeText(this.#response, bytes) : this.#response.write(bytes);
  }

  /** Resolves when the client has caught up or is gone. */
  drained(): Promise<void> {
    if (this.hasRoom) return Promise.resolve();
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

  /** What tells when the client has caught up; null where it has. */
  get #full(): ServerResponse | Socket | null {
    const { socket } = this.#response;
    if (this.#response.writableNeedDrain) return this.#response;
    return socket?.writableNeedDrain ? socket : null;
  }

  #untilDrained(): Promise<void> {
    const response = this.#response;
    const full = this.#full;
    return new Promise((resolve) => {
      const timer = this.#cutOffLater();
      const done = (): void => {
        clearTimeout(timer);
        full?.off('drain', done);
        response.off('close', done);
        resolve();
      };
      full?.on('drain', done);
      response.on('close', done);
    });
  }

  #cutOffLater(): NodeJS.Timeout {
    return setTimeout(() => this.#response.destroy(), this.#maxStallMs).unref();
  }
}

/** As `response.write`, which writes the size, the text and two line ends of a chunk as four parts: half as dear again as one. */
function writeText(response: ServerResponse, text: string): boolean {
  const { socket, chunkedEncoding } = response;
  // Without chunks for a client of HTTP/1.0; without a socket as long as an earlier request on it is answered.
  if (!chunkedEncoding || !socket?.writable) return response.write(text);
  return socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}
