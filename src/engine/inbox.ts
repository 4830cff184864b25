// The engine thread's incoming messages: it polls them while steps run, and waits for them when idle.

import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { ToEngine } from './messages.ts';

export class Inbox {
  readonly #port: MessagePort;
  #delivered: ToEngine[] = [];
  #wake: (() => void) | null = null;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (message: ToEngine) => {
      this.#delivered.push(message);
      this.#wake?.();
    });
  }

  /** Resolves when at least one message is there. */
  async wait(): Promise<void> {
    if (this.#delivered.length > 0) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = null;
  }

  /** All messages that have arrived, in order, including those that the event loop has not delivered yet. */
  drain(): ToEngine[] {
    const messages = this.#delivered;
    this.#delivered = [];
    for (
      let next = receiveMessageOnPort(this.#port);
      next !== undefined;
      next = receiveMessageOnPort(this.#port)
    ) {
      messages.push(next.message);
    }
    return messages;
  }
}
