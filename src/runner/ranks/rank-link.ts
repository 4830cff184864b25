// Rank 0's end of a follower: starts its thread, and hears of it until it is closed.

import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import type { EngineConfig } from '../../config/engine-config.ts';
import type { RankSeat } from '../../ops/ranks.ts';
import { unpackError } from '../../util/packed-error.ts';
import { startThread } from '../../util/start-thread.ts';
import type { FromRank, LoadedRank, RankThreadData, ToRank } from './messages.ts';

interface RankListeners {
  onProgress(fraction: number, what: string): void;
  onWarning(message: string): void;
  onProposed(value: number): void;
  onReady(loaded: LoadedRank): void;
  /** Null where the adapter that it was sent is loaded. */
  onAdapterDone(error: Error | null): void;
  /** It has failed or ended by itself. Called once. */
  onFailure(error: Error): void;
}

export class RankLink {
  readonly rank: number;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #sent = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly #listeners: RankListeners;
  /** Whether nothing that it says or does matters any more. */
  #isOver = false;

  /** @param seats one for each stage of the model */
  constructor(config: EngineConfig, rank: number, seats: readonly RankSeat[], listeners: RankListeners) {
    this.rank = rank;
    this.#listeners = listeners;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const data: RankThreadData = { port: port2, sent: this.#sent, config, seats };
    this.#worker = startThread(new URL('./rank-thread', import.meta.url), {
      name: `svc-rank-${rank}`,
      data,
      transferList: [port2],
    });
    port1.on('message', (message: FromRank) => this.#receive(message));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => {
      // The end of a thread may be heard before what it said last.
      this.receiveAll();
      this.#fail(new Error('its thread has ended'));
    });
  }

  send(message: ToRank): void {
    this.#port.postMessage(message);
    Atomics.add(this.#sent, 0, 1);
    Atomics.notify(this.#sent, 0);
  }

  /** Hears at once what it has said. */
  receiveAll(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      this.#receive(next.message);
    }
  }

  /** Lets the thread end by itself; the process need not wait for it. */
  close(): void {
    this.#isOver = true;
    this.send({ type: 'close' });
    this.#port.close();
    this.#worker.unref();
  }

  #receive(message: FromRank): void {
    if (this.#isOver) return;
    switch (message.type) {
      case 'progress':
        this.#listeners.onProgress(message.fraction, message.what);
        break;
      case 'warning':
        this.#listeners.onWarning(message.message);
        break;
      case 'proposed':
        this.#listeners.onProposed(message.value);
        break;
      case 'ready':
        this.#listeners.onReady(message);
        break;
      case 'adapterDone':
        this.#listeners.onAdapterDone(message.error && unpackError(message.error));
        break;
      case 'failed':
        this.#fail(unpackError(message.error));
        break;
    }
  }

  /** With its class, since a person may mend what a rank found wrong, and the name of the rank. */
  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    error.message = `rank ${this.rank}: ${error.message}`;
    this.#listeners.onFailure(error);
  }
}
