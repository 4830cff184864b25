// One HTTP request to one instance: its head, its bytes as they come, and the one way in which it can fail.

import type { Dispatcher } from 'undici';
import { InvalidRequestError } from '../errors.ts';
import { type Instance, type OpenRequest, UpstreamFailure } from './instance.ts';

interface UpstreamRequestInit {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
  /** Is told once how it ended; null where all went well. */
  readonly onEnd?: (error: Error | null) => void;
}

export interface ResponseHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** Of a stream with a journal: the contents of the model and the adapter that write it. */
export const CONTENTS_HEADER = 'x-svc-contents';
/** An instance that answers so is full or about to leave: another one may not be. */
export const NO_ROOM: ReadonlySet<number> = new Set([429, 503]);
/** Of an answer that is held back until it is complete. */
const MAX_WHOLE_BYTES = 64 * 1024 * 1024;

export class UpstreamRequest implements Dispatcher.DispatchHandler, OpenRequest {
  readonly instance: Instance;
  /** Rejects with an UpstreamFailure, or the reason of `cancel`. */
  readonly head: Promise<ResponseHead>;
  /** By performance.now(). */
  readonly openedAt = performance.now();
  /** When bytes last came, by performance.now(). */
  movedAt = performance.now();
  /** There was a connection: the instance may have read it. */
  wasSent = false;
  /** Milliseconds without a byte after which it is given up. */
  maxSilence = Number.POSITIVE_INFINITY;
  readonly #onEnd: (error: Error | null) => void;
  #isPaused = false;
  #resolveHead: (head: ResponseHead) => void = () => {};
  #rejectHead: (error: Error) => void = () => {};
  #controller: Dispatcher.DispatchController | null = null;
  /** What came before `pipe`. */
  #early: Buffer[] = [];
  #sink: ((chunk: Buffer) => void) | null = null;
  #finish: ((error: Error | null) => void) | null = null;
  #result: { readonly error: Error | null } | null = null;

  constructor(instance: Instance, { onEnd, ...request }: UpstreamRequestInit) {
    this.#onEnd = onEnd ?? (() => {});
    this.instance = instance;
    this.head = new Promise((resolve, reject) => {
      this.#resolveHead = resolve;
      this.#rejectHead = reject;
    });
    instance.openRequests.add(this);
    instance.pool.dispatch({ ...request, bodyTimeout: 0, headersTimeout: 0 }, this);
  }

  /**
   * Resolves with all bytes of the answer.
   * @throws InvalidRequestError where they are too many: those of another instance would be as many.
   */
  async whole(): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let length = 0;
    await this.pipe((chunk) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > MAX_WHOLE_BYTES) this.cancel(tooLong());
    });
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }

  /** Resolves at the end of the answer, rejects as `head`; `sink` may pause it. */
  pipe(sink: (chunk: Buffer) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#finish = (error) => (error === null ? resolve() : reject(error));
      this.#sink = sink;
      for (const chunk of this.#early.splice(0)) sink(chunk);
      if (this.#result !== null) this.#finish(this.#result.error);
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#isPaused || this.#result !== null) return;
    this.#isPaused = false;
    this.movedAt = performance.now();
    this.#controller?.resume();
  }

  /** Closes the connection, which ends the request at the instance. */
  cancel(reason: Error): void {
    if (this.#result !== null) return;
    this.#end(reason);
    this.#controller?.abort(reason);
  }

  /** Closes the connection: the instance is at fault. */
  fail(failure: UpstreamFailure): void {
    if (this.#result === null) this.instance.noteFailure(failure.message);
    this.cancel(failure);
  }

  /** Fails where nothing has come for too long; while the client is slow, nothing can come. */
  checkSilence(now: number): void {
    if (this.#isPaused || now - this.movedAt <= this.maxSilence) return;
    this.fail(new UpstreamFailure('the instance has sent nothing for too long'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.wasSent = true;
    if (this.#result?.error) controller.abort(this.#result.error);
  }

  onResponseStart(_: unknown, status: number, headers: ResponseHead['headers']): void {
    if (status < 200) return;
    this.#moved();
    this.#resolveHead({ status, headers });
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#moved();
    if (this.#sink !== null) this.#sink(chunk);
    else this.#early.push(chunk);
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#result !== null) return;
    this.instance.noteFailure(error.message);
    this.#end(new UpstreamFailure(error.message));
  }

  #moved(): void {
    this.movedAt = performance.now();
    this.instance.heard();
  }

  #end(error: Error | null): void {
    if (this.#result !== null) return;
    this.#result = { error };
    this.instance.openRequests.delete(this);
    if (error !== null) this.#rejectHead(error);
    this.#finish?.(error);
    this.#onEnd(error);
  }
}

function tooLong(): InvalidRequestError {
  return new InvalidRequestError(
    `The answer has more than ${MAX_WHOLE_BYTES / 2 ** 20} MiB, which the proxy does not hold back: ask for it with ` +
      'stream, or for fewer choices or logprobs',
    { param: 'stream' },
  );
}
