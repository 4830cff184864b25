// Writes one event stream over a hijacked reply: what comes within one turn of the event loop in one piece, since each piece costs
// a system call; and comments that keep silent connections open.

import type { FastifyReply } from 'fastify';
import { atEndOfTurn } from '../util/end-of-turn.ts';
import { whileHalfClosed } from './half-closed.ts';
import { DEFAULT_WRITE_TIMEOUT_MS, PacedWriter } from './paced-writer.ts';

/** Silence after which proxies and clients begin to doubt the connection. */
const KEEP_ALIVE_MS = 15_000;
/** A comment, which every reader skips. */
export const WAITING = ': waiting\n\n';
export const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Reverse proxies buffer answers unless they are told not to.
  'x-accel-buffering': 'no',
} as const;
/** Characters that are written at once, whatever else the turn brings. */
const MAX_HELD = 16_384;

export class SseStream {
  readonly #response: FastifyReply['raw'];
  readonly #writer: PacedWriter;
  readonly #keepAlive: NodeJS.Timeout;
  #hasWritten = false;
  #held = '';
  #isFlushedLater = false;

  /** Sends the headers at once: a failure from here on can only be an event of the stream. */
  constructor(reply: FastifyReply, writeTimeoutMs: number = DEFAULT_WRITE_TIMEOUT_MS) {
    this.#response = reply.raw;
    this.#writer = new PacedWriter(reply.raw, writeTimeoutMs);
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) this.#response.setHeader(name, value);
    }
    reply.hijack();
    // One small write a token must leave at once.
    this.#response.socket?.setNoDelay(true);
    this.#response.writeHead(200, STREAM_HEADERS);
    this.#response.flushHeaders();
    this.#keepAlive = setInterval(() => this.#breakSilence(), KEEP_ALIVE_MS).unref();
    this.#response.once('close', () => {
      clearInterval(this.#keepAlive);
      this.#takeHeld();
    });
    whileHalfClosed(this.#response, () => this.#comment());
  }

  /** `frames` are whole events, each ended by a blank line. False: wait for `drained` before the next ones. */
  write(frames: readonly string[]): boolean {
    if (frames.length === 0) return true;
    this.#hasWritten = true;
    this.#held += frames.length === 1 ? frames[0] : frames.join('');
    if (this.#held.length >= MAX_HELD) this.#flush();
    else this.#flushLater();
    return this.#writer.hasRoom;
  }

  /** Resolves when the reader has caught up or is gone; one that is stuck is cut off. */
  drained(): Promise<void> {
    return this.#writer.drained();
  }

  /** Writes the last frames; a reader that does not take them in time is cut off. */
  end(frames: readonly string[]): void {
    this.#writer.end(this.#takeHeld() + frames.join(''));
  }

  #flushLater(): void {
    if (this.#isFlushedLater) return;
    this.#isFlushedLater = true;
    atEndOfTurn(() => {
      this.#isFlushedLater = false;
      this.#flush();
    });
  }

  #flush(): void {
    this.#writer.write(this.#takeHeld());
  }

  #takeHeld(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }

  #breakSilence(): void {
    if (!this.#hasWritten) this.#comment();
    this.#hasWritten = false;
  }

  #comment(): void {
    this.#writer.write(WAITING);
  }
}
