// The requests that are being answered: a client that leaves or a deadline that passes aborts one, and a shutdown waits for
// all.

import type { FastifyReply } from 'fastify';
import { RequestTimeoutError } from '../errors.ts';
import { within } from '../util/within.ts';

/** Time that aborted requests have to tell their clients why. */
const LAST_WORDS_MS = 2000;

/** The reason of an abort that no client is left to hear of. */
export class ClientGoneError extends Error {}

export interface InFlightOptions {
  readonly requestId: string;
  /** The request is aborted when it takes longer; 0 is no limit. */
  readonly timeoutMs: number;
  /** Called when the reply is over; `isComplete` where the client has the whole answer. */
  readonly onClosed?: (isComplete: boolean) => void;
}

export class InFlightRequests {
  /** With the id of their request. */
  readonly #controllers = new Map<AbortController, string>();
  readonly #waiting: (() => void)[] = [];
  #isDraining = false;

  get size(): number {
    return this.#controllers.size;
  }

  /** New requests are to be refused. */
  get isDraining(): boolean {
    return this.#isDraining;
  }

  startDraining(): void {
    this.#isDraining = true;
  }

  /** Aborts `controller` when the connection of `reply` ends early; the entry lasts until the reply is over. */
  add(controller: AbortController, reply: FastifyReply, options: InFlightOptions): void {
    const { requestId, timeoutMs, onClosed } = options;
    const deadline =
      timeoutMs === 0 ? undefined : setTimeout(() => controller.abort(late(timeoutMs)), timeoutMs);
    const response = reply.raw;
    this.#controllers.set(controller, requestId);
    const close = (): void => {
      const isComplete = response.writableFinished;
      clearTimeout(deadline);
      if (!isComplete) controller.abort(new ClientGoneError('the client has closed the connection'));
      this.#controllers.delete(controller);
      if (this.#controllers.size === 0) for (const resolve of this.#waiting.splice(0)) resolve();
      onClosed?.(isComplete);
    };
    // A client may have left while its body was being parsed.
    if (response.destroyed) close();
    else response.once('close', close);
  }

  /** Aborts the requests that came with this id. */
  abort(requestId: string, reason: Error): void {
    for (const [controller, id] of this.#controllers) if (id === requestId) controller.abort(reason);
  }

  /**
   * Lets requests finish for `deadlineMs`, then aborts the others with `reason`.
   * @returns how many were aborted.
   */
  async drain(deadlineMs: number, reason: Error): Promise<number> {
    this.startDraining();
    if (await this.#idle(deadlineMs)) return 0;
    const numAborted = this.size;
    for (const controller of this.#controllers.keys()) controller.abort(reason);
    await this.#idle(LAST_WORDS_MS);
    return numAborted;
  }

  /** Resolves true when nothing is in flight, false when that takes longer than `deadlineMs`. */
  async #idle(deadlineMs: number): Promise<boolean> {
    if (this.size === 0) return true;
    return within(deadlineMs, new Promise((resolve) => this.#waiting.push(resolve)));
  }
}

function late(timeoutMs: number): RequestTimeoutError {
  return new RequestTimeoutError(
    `The request took longer than the ${timeoutMs / 1000} seconds that one may take (--request-timeout)`,
  );
}
