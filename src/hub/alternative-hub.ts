// The alternative hub, chosen by SVC_USE_ALT_MODEL_HUB: other addresses and listings, the same downloader.

import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { getJson } from './http.ts';
import type { HubOptions, Listing, ModelHub, RemoteFile } from './model-hub.ts';

const DEFAULT_ENDPOINT = 'https://www.modelscope.cn';

const filesAnswer = z.object({
  Data: z.object({
    Files: z.array(
      z.object({
        Path: z.string(),
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
  readonly headers = {};

  constructor(env: NodeJS.ProcessEnv, { revision, downloadDir }: HubOptions = {}) {
    this.name = (env.SVC_ALT_MODEL_HUB_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, '');
    const cache = env.XDG_CACHE_HOME || join(homedir(), '.cache');
    this.cacheFolder = downloadDir || join(cache, 'svc', 'alternative-hub');
    this.revision = revision || 'master';
  }

  async list(model: string): Promise<Listing> {
    const context = { hub: this.name, model, headers: this.headers };
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
    return { commit: fingerprint(files), files };
  }
}

/** Names the snapshot by the files' hashes, since this hub's listing has no commit. */
function fingerprint(files: readonly RemoteFile[]): string {
  const lines = files.map(({ path, hash }) => `${hash.hex} ${path}\n`).sort();
  return createHash('sha256').update(lines.join('')).digest('hex').slice(0, 40);
}
