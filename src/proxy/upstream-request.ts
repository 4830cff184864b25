// One HTTP request to one instance: its head, its bytes as they come, and the one way in which it can fail.

import type { Dispatcher } from 'undici';
import type { Instance, OpenRequest } from './instance.ts';
import { UpstreamFailure } from './upstream-failure.ts';

export interface UpstreamRequestInit {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
}

export interface ResponseHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Of an answer that is held back until it is complete. */
const MAX_WHOLE_BYTES = 64 * 1024 * 1024;

export class UpstreamRequest implements Dispatcher.DispatchHandler, OpenRequest {
  readonly instance: Instance;
  /** Rejects with a UpstreamFailure. */
  readonly head: Promise<ResponseHead>;
  /** By performance.now(). */
  readonly openedAt = performance.now();
  /** When bytes last came, by Date.now(). */
  movedAt = Date.now();
  /** Milliseconds without a byte after which it is given up. */
  maxSilence = Number.POSITIVE_INFINITY;
  #isPaused = false;
  #resolveHead: (head: ResponseHead) => void = () => {};
  #rejectHead: (failure: UpstreamFailure) => void = () => {};
  #controller: Dispatcher.DispatchController | null = null;
  /** What came before `pipe`. */
  #early: Buffer[] = [];
  #sink: ((chunk: Buffer) => void) | null = null;
  #finish: ((failure: UpstreamFailure | null) => void) | null = null;
  #result: { readonly failure: UpstreamFailure | null } | null = null;

  constructor(instance: Instance, request: UpstreamRequestInit) {
    this.instance = instance;
    this.head = new Promise((resolve, reject) => {
      this.#resolveHead = resolve;
      this.#rejectHead = reject;
    });
    instance.openRequests.add(this);
    instance.pool.dispatch({ ...request, bodyTimeout: 0, headersTimeout: 0 }, this);
  }

  /** Resolves with all bytes of the answer. */
  async whole(): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    await this.pipe((chunk) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > MAX_WHOLE_BYTES) this.fail(new UpstreamFailure('too long', 'the answer is too long'));
    });
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }

  /** Resolves at the end of the answer, rejects with a UpstreamFailure; `sink` may pause it. */
  pipe(sink: (chunk: Buffer) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#finish = (failure) => (failure === null ? resolve() : reject(failure));
      this.#sink = sink;
      for (const chunk of this.#early.splice(0)) sink(chunk);
      if (this.#result !== null) this.#finish(this.#result.failure);
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#isPaused || this.#result !== null) return;
    this.#isPaused = false;
    this.movedAt = Date.now();
    this.#controller?.resume();
  }

  /** Closes the connection, which ends the request at the instance. */
  cancel(): void {
    this.fail(new UpstreamFailure('cancelled', 'not wanted any more'));
  }

  /** Fails where nothing has come for too long; while the client is slow, nothing can come. */
  checkSilence(now: number): void {
    if (this.#isPaused || now - this.movedAt <= this.maxSilence) return;
    this.fail(new UpstreamFailure('silent', 'the instance has sent nothing for too long'));
  }

  fail(failure: UpstreamFailure): void {
    if (this.#result !== null) return;
    this.#end(failure);
    this.#controller?.abort(failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#result?.failure) controller.abort(this.#result.failure);
  }

  onResponseStart(_: unknown, status: number, headers: ResponseHead['headers']): void {
    if (status < 200) return;
    this.movedAt = Date.now();
    this.#resolveHead({ status, headers });
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.movedAt = Date.now();
    if (this.#sink !== null) this.#sink(chunk);
    else this.#early.push(chunk);
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#result !== null) return;
    this.#end(new UpstreamFailure('connection', error.message));
  }

  #end(failure: UpstreamFailure | null): void {
    if (this.#result !== null) return;
    this.#result = { failure };
    const { instance } = this;
    instance.openRequests.delete(this);
    if (failure !== null) {
      if (failure.fault !== 'cancelled') instance.noteFailure();
      this.#rejectHead(failure);
    }
    this.#finish?.(failure);
  }
}
