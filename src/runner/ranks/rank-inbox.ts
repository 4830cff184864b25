// What rank 0 sends to a follower, in order: awaited on the event loop where there is nothing to compute, else without it.

import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ToRank } from './messages.ts';

export class RankInbox {
  readonly #port: MessagePort;
  readonly #sent: Int32Array;
  /** What the event loop has delivered. */
  readonly #delivered: ToRank[] = [];
  #wake = (): void => {};

  /** @param sent counts messages once they are sent */
  constructor(port: MessagePort, sent: Int32Array) {
    this.#port = port;
    this.#sent = sent;
    port.on('message', (message: ToRank) => {
      this.#delivered.push(message);
      this.#wake();
    });
  }

  async next(): Promise<ToRank> {
    while (true) {
      const message = this.#take();
      if (message !== null) return message;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Null where none comes within so many milliseconds, in which the thread sleeps. */
  nextWithin(patienceMs: number): ToRank | null {
    while (true) {
      const seen = Atomics.load(this.#sent, 0);
      const message = this.#take();
      if (message !== null) return message;
      if (Atomics.wait(this.#sent, 0, seen, patienceMs) === 'timed-out') return null;
    }
  }

  #take(): ToRank | null {
    return this.#delivered.shift() ?? receiveMessageOnPort(this.#port)?.message ?? null;
  }
}
