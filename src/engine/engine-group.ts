// The engines of a process, as the main thread sees them: one, or several that each have a thread, a copy of the model, a
// scheduler and a KV cache of their own. A prompt is computed by one of them, with the bytes that any would give it.

import type { EngineConfig } from '../config/engine-config.ts';
import type { EngineDeadError } from '../errors.ts';
import type { AdapterSpec, LoadedAdapter } from '../models/adapters/load-adapter.ts';
import { freeHostMemory } from '../ops/host-memory.ts';
import type { EngineInfo } from '../runner/executor.ts';
import { once } from '../util/once.ts';
import { EngineClient, type EngineClientOptions } from './engine-client.ts';
import { EngineRouter, type Route, type RoutedPrompt } from './engine-router.ts';
import { engineShares } from './engine-share.ts';
import type { CoreStats } from './messages.ts';

/** The engine that a prompt goes to, until `leave`. */
export interface Place extends Route {
  readonly client: EngineClient;
}

export class EngineGroup {
  /** By rank. */
  readonly #clients: readonly [EngineClient, ...EngineClient[]];
  readonly #router: EngineRouter;
  /** Resolves when one of them has ended by itself: then all have. */
  readonly died: Promise<EngineDeadError>;

  private constructor(clients: readonly [EngineClient, ...EngineClient[]], config: EngineConfig) {
    this.#clients = clients;
    const { blockSize, numBlocks, computesWholePrompts } = this.info;
    this.#router = new EngineRouter({
      numEngines: clients.length,
      blockSize,
      numBlocks,
      enablePrefixCaching: clients.length > 1 && config.enablePrefixCaching && !computesWholePrompts,
    });
    this.died = Promise.race(clients.map(({ died }) => died)).then((death) => {
      for (const client of clients) client.end(death);
      return death;
    });
  }

  /**
   * Starts all engines at the same time.
   * @throws ModelLoadError, ConfigError or NativeAddonError as the first of them that fails found them.
   */
  static async start(
    config: EngineConfig,
    { thread, onProgress, onWarning = () => {} }: EngineClientOptions = {},
    signal?: AbortSignal,
  ): Promise<EngineGroup> {
    const shares = engineShares(config, freeHostMemory);
    const failure = new AbortController();
    signal?.addEventListener('abort', () => failure.abort(), { once: true });
    const warn = shares.length === 1 ? onWarning : once(onWarning);
    const starts = shares.map((share, rank) => {
      // They load alike: one speaks for all.
      const listeners = rank === 0 ? { thread, onProgress, onWarning: warn } : { onWarning: warn };
      const name = shares.length === 1 ? undefined : `engine ${rank} of ${shares.length}`;
      return EngineClient.start(share, { ...listeners, name }, failure.signal);
    });
    try {
      const [first, ...others] = await Promise.all(starts);
      return new EngineGroup([first!, ...others], config);
    } catch (error) {
      failure.abort();
      const started = (await Promise.allSettled(starts)).flatMap((start) =>
        start.status === 'fulfilled' ? [start.value] : [],
      );
      await Promise.all(started.map((client) => client.close()));
      throw error;
    }
  }

  /** By rank: they differ in their threads at most. */
  get clients(): readonly [EngineClient, ...EngineClient[]] {
    return this.#clients;
  }

  get info(): EngineInfo {
    return this.#clients[0].info;
  }

  /** Those of the configuration, in its order. */
  get adapters(): readonly LoadedAdapter[] {
    return this.#clients[0].adapters;
  }

  get isAlive(): boolean {
    return this.#clients.every(({ isAlive }) => isAlive);
  }

  /** @param rank of the engine, where the client has named one. */
  place(prompt: RoutedPrompt, rank: number | null): Place {
    const route = this.#router.route(prompt, rank);
    return { ...route, client: this.#clients[route.rank]! };
  }

  /** By rank. */
  stats(): Promise<CoreStats[]> {
    return Promise.all(this.#clients.map((client) => client.stats()));
  }

  /** False where one has requests that run: it forgets nothing. */
  async resetPrefixCache(): Promise<boolean> {
    this.#router.forgetPrefixes();
    const resets = await Promise.all(this.#clients.map((client) => client.resetPrefixCache()));
    return resets.every((isReset) => isReset);
  }

  /**
   * Loads an adapter into all of them, or none.
   * @throws ModelLoadError naming what is wrong with it.
   */
  async loadAdapter(spec: AdapterSpec): Promise<LoadedAdapter> {
    const loads = this.#clients.map((client) => client.loadAdapter(spec));
    try {
      const [adapter] = await Promise.all(loads);
      return adapter!;
    } catch (error) {
      for (const [rank, load] of (await Promise.allSettled(loads)).entries()) {
        if (load.status === 'fulfilled') this.#clients[rank]!.unloadAdapter(spec.id);
      }
      throw error;
    }
  }

  unloadAdapter(adapterId: number): void {
    for (const client of this.#clients) client.unloadAdapter(adapterId);
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}
