// Writes the frames of one event stream over a hijacked reply: back-pressure, a deadline for a reader that is stuck,
// comments that keep silent connections open. The caller decides the frames.

import type { FastifyReply } from 'fastify';
import { whileHalfClosed } from './half-closed.ts';

/** Silence after which proxies and clients begin to doubt the connection. */
const KEEP_ALIVE_MS = 15_000;
/** A comment, which every reader skips. */
export const WAITING = ': waiting\n\n';
/** A reader that takes nothing for this long counts as gone. */
const DEFAULT_WRITE_TIMEOUT_MS = 60_000;

interface SseOptions {
  readonly writeTimeoutMs?: number | undefined;
}

export class SseStream {
  readonly #response: FastifyReply['raw'];
  readonly #writeTimeoutMs: number;
  readonly #keepAlive: NodeJS.Timeout;
  #hasWritten = false;
  #catchingUp: Promise<void> | null = null;

  /** Sends the headers at once: a failure from here on can only be an event of the stream. */
  constructor(reply: FastifyReply, options: SseOptions = {}) {
    this.#response = reply.raw;
    this.#writeTimeoutMs = options.writeTimeoutMs ?? DEFAULT_WRITE_TIMEOUT_MS;
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) this.#response.setHeader(name, value);
    }
    reply.hijack();
    // One small write a token must leave at once.
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      // Reverse proxies buffer answers unless they are told not to.
      'x-accel-buffering': 'no',
    });
    this.#response.flushHeaders();
    this.#keepAlive = setInterval(() => this.#breakSilence(), KEEP_ALIVE_MS).unref();
    this.#response.once('close', () => clearInterval(this.#keepAlive));
    whileHalfClosed(this.#response, () => this.#comment());
  }

  /** `frames` are whole events, each ended by a blank line. False: wait for `drained` before the next ones. */
  write(frames: readonly string[]): boolean {
    if (frames.length === 0 || !this.#isOpen()) return true;
    this.#hasWritten = true;
    return this.#response.write(frames.length === 1 ? frames[0] : frames.join(''));
  }

  /** Resolves when the reader has caught up or is gone; one that is stuck is cut off. */
  drained(): Promise<void> {
    if (!this.#isOpen() || !this.#response.writableNeedDrain) return Promise.resolve();
    // Several writers may wait for one reader.
    this.#catchingUp ??= this.#waitForReader().finally(() => {
      this.#catchingUp = null;
    });
    return this.#catchingUp;
  }

  /** Writes the last frames; a reader that does not take them in time is cut off. */
  end(frames: readonly string[]): void {
    if (!this.#isOpen()) return;
    this.#response.end(frames.join(''));
    const timer = this.#cutOffLater();
    this.#response.once('close', () => clearTimeout(timer));
  }

  #waitForReader(): Promise<void> {
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

  #isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  #breakSilence(): void {
    if (!this.#hasWritten) this.#comment();
    this.#hasWritten = false;
  }

  #comment(): void {
    if (this.#isOpen()) this.#response.write(WAITING);
  }

  #cutOffLater(): NodeJS.Timeout {
    return setTimeout(() => this.#response.destroy(), this.#writeTimeoutMs).unref();
  }
}
