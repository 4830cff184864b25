// The generation requests in flight: a client that disconnects aborts its own, a shutdown waits for all.

import type { FastifyReply } from 'fastify';
import { sharedAbortController } from '../util/shared-abort.ts';
import { within } from '../util/within.ts';

/** Aborts a request whose client has gone: nobody is left to read an error. */
export class ClientGoneError extends Error {}

export class InFlight {
  /** By controller: the id of its request. */
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

  /** Aborts the requests with this id: a client may have sent several. */
  abort(requestId: string, reason: Error): void {
    for (const [controller, id] of this.#controllers) if (id === requestId) controller.abort(reason);
  }

  /** Resolves true when nothing is in flight, false when that takes longer than `deadlineMs`. */
  async idle(deadlineMs: number): Promise<boolean> {
    if (this.#controllers.size === 0) return true;
    return within(deadlineMs, new Promise((resolve) => this.#waiting.push(resolve)));
  }
}
