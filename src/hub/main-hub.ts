// The main hub: its API, its token, and the cache folder that it shares with the Python tools.

import { join } from 'node:path';
import type { Dispatcher } from 'undici';
import * as z from 'zod';
import { expectAddress } from '../config/environment.ts';
import { ModelLoadError } from '../errors.ts';
import { homeFolder } from '../util/home-folder.ts';
import { BlobCache, blobCaches } from './blob-cache.ts';
import { getJson } from './http.ts';
import { HubToken } from './hub-token.ts';
import type { CachedModel, ModelCache } from './model-cache.ts';
import type { HubOptions, Listing, ModelHub } from './model-hub.ts';
import { type RemoteFile, remotePath } from './remote-file.ts';
import { connectionsOf } from './web-proxy.ts';

const MAIN = 'main';
const DEFAULT_ENDPOINT = 'https://huggingface.co';

/** More files than any model has: a longer listing is given up. */
const MOST_FILES = 100_000;

/** Hashes become file names: nothing else may come in. */
const hex = z.string().regex(/^[0-9a-f]{40,64}$/);

const revisionAnswer = z.object({ sha: hex });

const treeAnswer = z.array(
  z.object({
    type: z.string(),
    path: remotePath,
    size: z.int().nonnegative().default(0),
    oid: hex,
    lfs: z.object({ oid: hex, size: z.int().nonnegative() }).nullish(),
  }),
);

export class MainHub implements ModelHub {
  readonly name: string;
  readonly cacheFolder: string;
  readonly revision: string;
  readonly token: HubToken;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: Dispatcher;

  /** Reads HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN and HF_TOKEN_PATH as the Python tools do. */
  constructor(env: NodeJS.ProcessEnv, { revision, downloadDir }: HubOptions = {}) {
    const home = env.HF_HOME || join(env.XDG_CACHE_HOME || join(homeFolder(), '.cache'), 'huggingface');
    this.name = (env.HF_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, '');
    this.cacheFolder = downloadDir || env.HF_HUB_CACHE || join(home, 'hub');
    this.revision = revision || MAIN;
    this.token = new HubToken(env, 'HF_TOKEN', env.HF_TOKEN_PATH || join(home, 'token'));
    const { value: token } = this.token;
    this.headers = token === null ? {} : { authorization: `Bearer ${token}` };
    this.connections = connectionsOf(env);
  }

  cacheOf(model: string): ModelCache {
    return new BlobCache(this.cacheFolder, model, this.revision);
  }

  cachedModels(): Promise<CachedModel[]> {
    return blobCaches(this.cacheFolder);
  }

  async list(model: string): Promise<Listing> {
    expectAddress('HF_ENDPOINT', this.name, DEFAULT_ENDPOINT);
    this.token.check();
    const isMain = this.revision === MAIN;
    const context = { hub: this, model, ...(!isMain && { revision: this.revision }) };
    const api = `${this.name}/api/models/${model}`;
    const { sha } = (
      await getJson(`${api}/revision/${encodeURIComponent(this.revision)}`, revisionAnswer, context)
    ).value;
    const files: RemoteFile[] = [];
    let url: string | null = `${api}/tree/${sha}?recursive=true`;
    for (let numEntries = 0; url !== null; ) {
      const page: { value: z.output<typeof treeAnswer>; next: string | null } = await getJson(
        url,
        treeAnswer,
        context,
      );
      for (const entry of page.value) {
        if (entry.type === 'file') files.push(this.#remoteFile(model, sha, entry));
      }
      numEntries += Math.max(1, page.value.length);
      if (numEntries > MOST_FILES)
        throw new ModelLoadError(`${this.name} lists more than ${MOST_FILES} files of ${model}: no model`);
      url = page.next;
    }
    return { commit: sha, files };
  }

  #remoteFile(model: string, commit: string, entry: z.output<typeof treeAnswer>[number]): RemoteFile {
    return {
      path: entry.path,
      size: entry.lfs?.size ?? entry.size,
      hash: entry.lfs
        ? { algorithm: 'sha256', hex: entry.lfs.oid }
        : { algorithm: 'git-blob', hex: entry.oid },
      url: `${this.name}/${model}/resolve/${commit}/${entry.path.split('/').map(encodeURIComponent).join('/')}`,
    };
  }
}
