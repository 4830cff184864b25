// The adapters that are served beside the model: loaded at start or later, known to requests by their names, and freed when
// the last request that uses one has ended.

import type { LoraConfig, LoraModule } from '../config/lora-config.ts';
import { AdapterError, NotFoundError, OverloadedError } from '../errors.ts';
import type { LoadedAdapter } from '../models/adapters/load-adapter.ts';
import type { EngineGroup } from './engine-group.ts';

export interface ServedAdapter extends LoraModule, LoadedAdapter {
  /** Names it to the engine thread; never used again. */
  readonly id: number;
}

/** Loads that clients may have waiting for their turn. */
const MOST_WAITING = 16;
/** A load takes about so long. */
const RETRY_SECONDS = 1;

export class Adapters {
  readonly #engines: EngineGroup;
  readonly #config: LoraConfig | null;
  /** By name. */
  readonly #served = new Map<string, ServedAdapter>();
  /** Those in memory, and how many requests use each; also those that are not served any more. */
  readonly #users = new Map<ServedAdapter, number>();
  /** Ends when no adapter is being loaded: one is at a time. */
  #changes: Promise<unknown> = Promise.resolve();
  /** Loads that `load` was asked for and that have not ended. */
  #numLoads = 0;
  #nextId = 0;

  /** @param loaded what has become of the modules of the configuration, in their order. */
  constructor(engines: EngineGroup, config: LoraConfig | null, loaded: readonly LoadedAdapter[]) {
    this.#engines = engines;
    this.#config = config;
    for (const [id, module] of (config?.modules ?? []).entries()) {
      this.#serve({ ...module, ...loaded[id]!, id });
      this.#nextId = id + 1;
    }
  }

  /** In the order in which they were loaded. */
  get all(): readonly ServedAdapter[] {
    return [...this.#served.values()];
  }

  /** How many may be loaded at the same time; 0 where none is served. */
  get maxLoras(): number {
    return this.#config?.maxLoras ?? 0;
  }

  find(name: string): ServedAdapter | null {
    return this.#served.get(name) ?? null;
  }

  /** Names by the ids that the engine thread knows; those that are not served any more and still used are among them. */
  namesOf(ids: readonly number[]): string[] {
    const known = new Map([...this.#users.keys()].map(({ id, name }) => [id, name]));
    return ids.flatMap((id) => known.get(id) ?? []);
  }

  /**
   * Keeps the adapter in memory until the function that it returns is called.
   * @throws NotFoundError where it has left.
   */
  use(adapter: ServedAdapter): () => void {
    const numUsers = this.#users.get(adapter);
    if (numUsers === undefined) throw unknownAdapter(adapter.name);
    this.#users.set(adapter, numUsers + 1);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#users.set(adapter, this.#users.get(adapter)! - 1);
      this.#freeUnused(adapter);
    };
  }

  /**
   * Loads an adapter while requests run; it is served once it is whole.
   * @param isReplaced lets it take the place of one of the same name, which running requests go on with.
   * @throws AdapterError where no adapter can be loaded, or none of that name; ModelLoadError naming what is wrong with it;
   *   OverloadedError where too many wait to be loaded.
   */
  async load(module: LoraModule, isReplaced = false): Promise<ServedAdapter> {
    if (this.#numLoads > MOST_WAITING) {
      throw new OverloadedError(
        `${MOST_WAITING} adapters wait to be loaded, one after the other: try again when some of them have been`,
        { retryAfter: RETRY_SECONDS },
      );
    }
    this.#numLoads += 1;
    const loading = this.#changes.then(() => this.#load(module, isReplaced));
    this.#changes = loading.catch(() => {});
    return loading.finally(() => {
      this.#numLoads -= 1;
    });
  }

  /**
   * The adapter of that name, loaded where it is not.
   * @throws AdapterError where the name is that of another folder, and as `load`.
   */
  ensure(module: LoraModule): Promise<ServedAdapter> {
    const loading = this.#changes.then(() => {
      const known = this.find(module.name);
      return known?.path === module.path ? known : this.#load(module, false);
    });
    this.#changes = loading.catch(() => {});
    return loading;
  }

  /**
   * Requests that run go on, new ones do not find it.
   * @throws NotFoundError where there is none of that name.
   */
  unload(name: string): void {
    const adapter = this.find(name);
    if (adapter === null) throw unknownAdapter(name);
    this.#served.delete(name);
    this.#freeUnused(adapter);
  }

  async #load(module: LoraModule, isReplaced: boolean): Promise<ServedAdapter> {
    const { name } = module;
    if (this.#config === null) {
      throw new AdapterError('Adapters are not enabled: start the server with --enable-lora');
    }
    const before = this.find(name);
    if (before !== null && !isReplaced) {
      throw new AdapterError(
        `The adapter ${name} is loaded already: unload it first, or give load_inplace to replace it`,
      );
    }
    const { maxLoras, maxLoraRank } = this.#config;
    const { size } = this.#users;
    // One that is replaced stays in memory until its requests have ended.
    if (size >= maxLoras + (before === null ? 0 : 1)) {
      throw new AdapterError(
        `${size} adapters are in memory, --max-loras allows ${maxLoras}: unload one, and let its requests end`,
      );
    }
    const id = this.#nextId++;
    const loaded = await this.#engines.loadAdapter({ id, path: module.path, maxRank: maxLoraRank });
    const adapter = { ...module, ...loaded, id };
    this.#serve(adapter);
    if (before !== null) this.#freeUnused(before);
    return adapter;
  }

  #serve(adapter: ServedAdapter): void {
    this.#served.set(adapter.name, adapter);
    this.#users.set(adapter, 0);
  }

  #freeUnused(adapter: ServedAdapter): void {
    if (this.#users.get(adapter) !== 0 || this.find(adapter.name) === adapter) return;
    this.#users.delete(adapter);
    this.#engines.unloadAdapter(adapter.id);
  }
}

function unknownAdapter(name: string): NotFoundError {
  return new NotFoundError(`The adapter \`${name}\` is not loaded`, { param: 'model' });
}
