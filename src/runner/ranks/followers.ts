// The ranks beside rank 0, as rank 0 sees them: a thread each, which load at the same time, compute every step, and fail together.

import type { EngineConfig } from '../../config/engine-config.ts';
import type { AdapterSpec, LoadedAdapter } from '../../models/adapters/load-adapter.ts';
import type { RankGroup, RankSeat } from '../../ops/ranks.ts';
import { openRankGroup } from '../../ops/select.ts';
import { once } from '../../util/once.ts';
import type { LoadListeners, LoadPlace } from '../load-runner.ts';
import type { LoadedRank, ToRank } from './messages.ts';
import { RankLink } from './rank-link.ts';

/** Between two looks whether followers have loaded an adapter. */
const PAUSE_MS = 1;
/** How long they may still load it when rank 0 has it. */
const ADAPTER_DEADLINE_MS = 120_000;
const NOBODY_WAKES = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

export class Followers {
  /** [stages] Where the ranks of each stage meet. */
  readonly #groups: readonly RankGroup[];
  readonly #links: readonly RankLink[];
  readonly #listeners: LoadListeners;
  /** [ranks] Shares of the load that are done. */
  readonly #progress: number[];
  /** What followers have proposed since all agreed last. */
  #proposed: number[] = [];
  /** [followers] */
  readonly #loaded: LoadedRank[] = [];
  /** What followers have answered to the adapter that is being loaded. */
  #adaptersDone: (Error | null)[] = [];
  /** What all ranks find is told once. */
  readonly #warn: (message: string) => void;
  #failure: Error | null = null;
  /** Ends the wait of `#until`. */
  #wake = (): void => {};

  /** Starts their threads, which load. */
  constructor(config: EngineConfig, listeners: LoadListeners) {
    this.#listeners = listeners;
    this.#warn = once(listeners.onWarning ?? (() => {}));
    const { tensorParallelSize: size, pipelineParallelSize: numStages } = config;
    this.#groups = Array.from({ length: numStages }, () => openRankGroup(size));
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    this.#progress = ranks.map(() => 0);
    this.#links = ranks.slice(1).map(
      (rank) =>
        new RankLink(config, rank, this.#seatsOf(rank), {
          onProgress: (fraction, what) => this.#noteProgress(rank, fraction, what),
          onWarning: (message) => this.#warn(message),
          onProposed: (value) => {
            this.#proposed.push(value);
            this.#wake();
          },
          onReady: (loaded) => {
            this.#loaded[rank - 1] = loaded;
            this.#wake();
          },
          onAdapterDone: (error) => void this.#adaptersDone.push(error),
          onFailure: (error) => this.#fail(error),
        }),
    );
  }

  /** For the load of rank 0, which ends with the error of a follower that fails meanwhile. */
  get place(): LoadPlace {
    return { seats: this.#seatsOf(0), agree: (own) => this.#agree(own) };
  }

  /** The same listeners, which hear of all ranks. */
  get listeners(): LoadListeners {
    return {
      ...this.#listeners,
      onProgress: (fraction, what) => {
        // What it throws ends the load of rank 0.
        if (this.#failure !== null) throw this.#failure;
        this.#noteProgress(0, fraction, what);
      },
      onWarning: (message) => this.#warn(message),
    };
  }

  /** Waits until all have loaded. */
  async loaded(): Promise<readonly LoadedRank[]> {
    await this.#until(() => this.#links.every((_, index) => this.#loaded[index] !== undefined));
    return this.#loaded;
  }

  /** @throws what has ended one of them. */
  send(message: ToRank): void {
    if (this.#failure !== null) throw this.#failure;
    for (const link of this.#links) link.send(message);
  }

  /**
   * Has them load an adapter while `own` loads that of rank 0; at its turns steps may be sent.
   * @throws ModelLoadError of any rank, once all have answered: some may have it then.
   */
  *loadAdapter(
    spec: AdapterSpec,
    own: Generator<void, LoadedAdapter, void>,
  ): Generator<void, LoadedAdapter, void> {
    this.#adaptersDone = [];
    this.send({ type: 'loadAdapter', spec });
    const outcome = yield* outcomeOf(own);
    const deadline = performance.now() + ADAPTER_DEADLINE_MS;
    while (this.#adaptersDone.length < this.#links.length) {
      Atomics.wait(NOBODY_WAKES, 0, 0, PAUSE_MS);
      if (this.hearFailure() !== null) throw this.#failure;
      if (performance.now() > deadline) {
        const seconds = ADAPTER_DEADLINE_MS / 1000;
        this.#fail(new Error(`other ranks have not loaded the adapter ${seconds} s after rank 0`));
      }
      yield;
    }
    const refusal = this.#adaptersDone.find((error) => error !== null);
    if ('error' in outcome) throw outcome.error;
    if (refusal !== undefined) throw refusal;
    return outcome.adapter;
  }

  /** What has ended one of them, if one has said it by now: where the thread that calls has not been on its event loop. */
  hearFailure(): Error | null {
    for (const link of this.#links) link.receiveAll();
    return this.#failure;
  }

  /** Ends their threads. Rank 0 computes nothing any more. */
  close(): void {
    this.#break('the engine has been closed');
    for (const link of this.#links) link.close();
  }

  async #agree(own: () => number): Promise<number> {
    await this.#until(() => this.#proposed.length === this.#links.length);
    const value = Math.min(own(), ...this.#proposed);
    this.#proposed = [];
    this.send({ type: 'agreed', value });
    return value;
  }

  async #until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      if (this.#failure !== null) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** [stages] */
  #seatsOf(rank: number): RankSeat[] {
    return this.#groups.map(({ seats }) => seats[rank]!);
  }

  #break(why: string): void {
    for (const group of this.#groups) group.break(why);
  }

  /** The slowest rank is how far the load is. */
  #noteProgress(rank: number, fraction: number, what: string): void {
    const before = Math.min(...this.#progress);
    this.#progress[rank] = fraction;
    const now = Math.min(...this.#progress);
    if (now > before) this.#listeners.onProgress?.(now, what);
  }

  /** The others fail of it, too, which says less. */
  #fail(error: Error): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    this.#break(error.message);
    this.#wake();
    this.#listeners.onFailure?.(error);
  }
}

function* outcomeOf(
  loading: Generator<void, LoadedAdapter, void>,
): Generator<void, { readonly adapter: LoadedAdapter } | { readonly error: unknown }, void> {
  try {
    return { adapter: yield* loading };
  } catch (error) {
    return { error };
  }
}
