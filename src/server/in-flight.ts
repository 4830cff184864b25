// Which generation requests are being answered now, so that a client that leaves aborts its own and a shutdown waits
// for all. The server context owns it; each generation route opens one entry a request.

import type { FastifyReply } from 'fastify';
import { sharedAbortController } from '../util/shared-abort.ts';
import { within } from '../util/within.ts';

/** The reason of an abort that nobody is left to hear of. */
export class ClientGoneError extends Error {}

export class InFlight {
  /** With the id of their request. */
  readonly #controllers = new Map<AbortController, string>();
  readonly #waiting: (() => void)[] = [];

  get size(): number {
    return this.#controllers.size;
  }

  /** Aborts when the connection of `reply` ends early; the entry lasts until the reply is over. */
  open(reply: FastifyReply, requestId: string): AbortController {
    const controller = sharedAbortController();
    const response = reply.raw;
    this.#controllers.set(controller, requestId);
    const close = (): void => {
      if (!response.writableFinished)
        controller.abort(new ClientGoneError('the client has closed the connection'));
      this.#controllers.delete(controller);
      if (this.#controllers.size === 0) for (const resolve of this.#waiting.splice(0)) resolve();
    };
    // A client may have left while its body was being parsed.
    if (response.destroyed) close();
    else response.once('close', close);
    return controller;
  }

  abortAll(reason: Error): void {
    for (const controller of this.#controllers.keys()) controller.abort(reason);
  }

  /** The requests that came with this id. */
  abort(requestId: string, reason: Error): void {
    for (const [controller, id] of this.#controllers) if (id === requestId) controller.abort(reason);
  }

  /** Resolves true when nothing is in flight, false when that takes longer than `deadlineMs`. */
  async idle(deadlineMs: number): Promise<boolean> {
    if (this.#controllers.size === 0) return true;
    return within(deadlineMs, new Promise((resolve) => this.#waiting.push(resolve)));
  }
}
