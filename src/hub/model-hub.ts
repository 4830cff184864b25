// The interface of a place to download models from; two hubs implement it.

import type { Dispatcher } from 'undici';
import type { CachedModel, ModelCache } from './model-cache.ts';
import type { RemoteFile } from './remote-file.ts';

export interface Listing {
  /** Names this state of the model: the folder of the snapshot. */
  readonly commit: string;
  readonly files: readonly RemoteFile[];
}

/** Which state of a model is wanted, and where copies are kept. */
export interface HubOptions {
  /** Branch, tag or commit; null is the hub's main branch. */
  readonly revision?: string | null | undefined;
  /** Null is the hub's usual cache. */
  readonly downloadDir?: string | null | undefined;
}

/** Where to get a token, for messages. */
export interface TokenAdvice {
  readonly variable: string;
  readonly isGiven: boolean;
}

/** A place to download models from. */
export interface ModelHub {
  /** For messages: the address that people know. */
  readonly name: string;
  /** Folder of the copies of all models. */
  readonly cacheFolder: string;
  readonly revision: string;
  readonly token: TokenAdvice;
  /** Headers of every request, credentials included. */
  readonly headers: Readonly<Record<string, string>>;
  /** What carries its requests. */
  readonly connections: Dispatcher;
  /** @throws ModelLoadError when the hub has no such model or does not show it, ConfigError when its address or the token is none. */
  list(model: string): Promise<Listing>;
  /** Where the copies of `model` are. */
  cacheOf(model: string): ModelCache;
  /** All copies that there are. */
  cachedModels(): Promise<CachedModel[]>;
}
