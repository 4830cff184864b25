// The requests that are being answered: a client that leaves or a deadline that passes aborts one, and a shutdown waits for
// all.

import type { FastifyReply } from 'fastify';
import { RequestTimeoutError } from '../errors.ts';
import { within } from '../util/within.ts';

/** Time that aborted requests have to tell their clients why. */
const LAST_WORDS_MS = 2000;

/** The reason of an abort that no client is left to hear of. */
export class ClientGoneError extends Error {}

interface InFlightOptions {
  readonly requestId: string;
  /** The request is aborted when it takes longer; 0 is no limit. */
  readonly timeoutMs: number;
  /** Called when the reply is over; `isComplete` where the client has the whole answer. */
  readonly onClosed?: (isComplete: boolean) => void;
}

/** An AbortController, or a request that can be stopped at less cost. */
export interface Abortable {
  abort(reason: Error): void;
}

export class InFlightRequests {
  /** With the id of their request. */
  readonly #requests = new Map<Abortable, string>();
  readonly #waiting: (() => void)[] = [];
  #isDraining = false;

  get size(): number {
    return this.#requests.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  startDraining(): void {
    this.#isDraining = true;
  }

  /** Aborts `request` when the connection of `reply` ends early; the entry lasts until the reply is over. */
  add(request: Abortable, reply: FastifyReply, options: InFlightOptions): void {
    const { requestId, timeoutMs, onClosed } = options;
    const deadline =
      timeoutMs === 0 ? undefined : setTimeout(() => request.abort(late(timeoutMs)), timeoutMs);
    const response = reply.raw;
    this.#requests.set(request, requestId);
    const close = (): void => {
      const isComplete = response.writableFinished;
      clearTimeout(deadline);
      if (!isComplete) request.abort(new ClientGoneError('the client has closed the connection'));
      this.#requests.delete(request);
      if (this.#requests.size === 0) for (const resolve of this.#waiting.splice(0)) resolve();
      onClosed?.(isComplete);
    };
    // A client may have left while its body was being parsed.
    if (response.destroyed) close();
    else response.once('close', close);
  }

  abort(requestId: string, reason: Error): void {
    for (const [request, id] of this.#requests) if (id === requestId) request.abort(reason);
  }

  /**
   * Lets requests finish for `deadlineMs`, then aborts the others with `reason`.
   * @returns how many were aborted.
   */
  async drain(deadlineMs: number, reason: Error): Promise<number> {
    this.startDraining();
    await this.#idle(deadlineMs);
    const numAborted = this.size;
    for (const request of this.#requests.keys()) request.abort(reason);
    await this.#idle(LAST_WORDS_MS);
    return numAborted;
  }

  /** Resolves when nothing is in flight, or after `deadlineMs`. */
  async #idle(deadlineMs: number): Promise<void> {
    if (this.size > 0) await within(deadlineMs, new Promise((resolve) => this.#waiting.push(resolve)));
  }
}

function late(timeoutMs: number): RequestTimeoutError {
  return new RequestTimeoutError(
    `The request took longer than the ${timeoutMs / 1000} seconds that one may take (--request-timeout)`,
  );
}
