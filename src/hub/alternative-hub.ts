// The alternative hub, chosen by SVC_USE_ALT_MODEL_HUB: its API, its token, and the cache folder that it shares with its own tools.

import { join } from 'node:path';
import type { Dispatcher } from 'undici';
import * as z from 'zod';
import { expectAddress } from '../config/environment.ts';
import { homeFolder } from '../util/home-folder.ts';
import { getJson } from './http.ts';
import { HubToken } from './hub-token.ts';
import type { CachedModel, ModelCache } from './model-cache.ts';
import type { HubOptions, Listing, ModelHub } from './model-hub.ts';
import { PlainCache, plainCaches } from './plain-cache.ts';
import { type RemoteFile, remotePath } from './remote-file.ts';
import { connectionsOf } from './web-proxy.ts';

const DEFAULT_ENDPOINT = 'https://www.modelscope.cn';
/** Variables with its address, the one that wins first. */
const ADDRESSES = ['SVC_ALT_MODEL_HUB_ENDPOINT', 'MODELSCOPE_ENDPOINT', 'MODELSCOPE_DOMAIN'] as const;

const filesAnswer = z.object({
  Data: z.object({
    Files: z.array(
      z.object({
        Path: remotePath,
        Type: z.string(),
        Size: z.int().nonnegative(),
        /** Becomes a file name; empty for folders. */
        Sha256: z
          .string()
          .regex(/^([0-9a-f]{64})?$/)
          .nullish(),
      }),
    ),
  }),
});

export class AlternativeHub implements ModelHub {
  readonly name: string;
  readonly cacheFolder: string;
  readonly revision: string;
  readonly token: HubToken;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: Dispatcher;
  readonly #variable: string;

  /** Reads MODELSCOPE_ENDPOINT or _DOMAIN, MODELSCOPE_CACHE, MODELSCOPE_API_TOKEN and MODELSCOPE_HOME as the hub's own tools do. */
  constructor(env: NodeJS.ProcessEnv, { revision, downloadDir }: HubOptions = {}) {
    this.#variable = ADDRESSES.find((name) => env[name]) ?? ADDRESSES[0];
    this.name = withScheme(env[this.#variable] || DEFAULT_ENDPOINT).replace(/\/+$/, '');
    this.cacheFolder = downloadDir || env.MODELSCOPE_CACHE || join(homeFolder(), '.cache', 'modelscope');
    this.revision = revision || 'master';
    const home = env.MODELSCOPE_HOME || join(homeFolder(), '.modelscope');
    this.token = new HubToken(env, 'MODELSCOPE_API_TOKEN', join(home, 'token'));
    const { value: token } = this.token;
    // Some of its routes look for the one, some for the other.
    this.headers =
      token === null ? {} : { authorization: `Bearer ${token}`, cookie: `m_session_id=${token}` };
    this.connections = connectionsOf(env);
  }

  cacheOf(model: string): ModelCache {
    return new PlainCache(this.cacheFolder, model, this.revision);
  }

  cachedModels(): Promise<CachedModel[]> {
    return plainCaches(this.cacheFolder);
  }

  async list(model: string): Promise<Listing> {
    expectAddress(this.#variable, this.name, DEFAULT_ENDPOINT);
    this.token.check();
    const context = { hub: this, model, revision: this.revision };
    const revision = encodeURIComponent(this.revision);
    const url = `${this.name}/api/v1/models/${model}/repo/files?Revision=${revision}&Recursive=true`;
    const { value } = await getJson(url, filesAnswer, context);
    const files = value.Data.Files.flatMap((entry): RemoteFile[] => {
      if (entry.Type !== 'blob' || !entry.Sha256) return [];
      const path = entry.Path.split('/').map(encodeURIComponent).join('/');
      return [
        {
          path: entry.Path,
          size: entry.Size,
          hash: { algorithm: 'sha256', hex: entry.Sha256 },
          url: `${this.name}/models/${model}/resolve/${revision}/${path}`,
        },
      ];
    });
    return { commit: this.revision, files };
  }
}

/** A domain is an address without its scheme. */
function withScheme(address: string): string {
  return /^https?:\/\//.test(address) ? address : `https://${address}`;
}
