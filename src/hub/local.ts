// Models that are on this machine already: the folder layout of the cache, the files of a model, whether all are there.

import { access, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { CONFIG_FILES, readWeightIndex, TOKENIZER_FILES, WEIGHT_INDEX } from '../util/model-files.ts';
import type { ModelHub } from './model-hub.ts';

/** Where one model lives in the cache: blobs/ by hash, snapshots/<commit>/ of links to them, refs/<branch>. */
export interface ModelCache {
  readonly folder: string;
  readonly blobs: string;
  /** File that holds the commit which the branch pointed to last. */
  readonly ref: string;
  snapshot(commit: string): string;
}

export function modelCache(hub: ModelHub, model: string): ModelCache {
  const folder = join(hub.cacheFolder, `models--${model.replaceAll('/', '--')}`);
  return {
    folder,
    blobs: join(folder, 'blobs'),
    ref: join(folder, 'refs', hub.revision),
    snapshot: (commit) => join(folder, 'snapshots', commit),
  };
}

/** What svc wants of a model's page: all that serves it, or only what makes text of tokens. */
export type ModelPart = 'model' | 'tokenizer';

const SMALL_FILES: Readonly<Record<ModelPart, readonly string[]>> = {
  tokenizer: TOKENIZER_FILES,
  model: [...CONFIG_FILES, ...TOKENIZER_FILES, WEIGHT_INDEX],
};

/** The files that svc reads of all that a model's page holds. */
export function neededFiles<F extends { readonly path: string }>(files: readonly F[], part: ModelPart): F[] {
  const small = files.filter(({ path }) => SMALL_FILES[part].includes(path));
  if (part === 'tokenizer') return small;
  const weights = files.filter(({ path }) => /^[^/]+\.safetensors$/.test(path));
  // Some publish the same weights a second time in the layout of their own program.
  const usual = weights.filter(({ path }) => !path.startsWith('consolidated'));
  return [...small, ...(usual.length > 0 ? usual : weights)];
}

/** The last downloaded snapshot where it is all there, null otherwise. A commit names its own, as other tools leave it. */
export async function cachedSnapshot(cache: ModelCache, part: ModelPart): Promise<string | null> {
  const commit = await readFile(cache.ref, 'utf8').catch(() => basename(cache.ref));
  const folder = cache.snapshot(commit.trim());
  return (await isComplete(folder, part)) ? folder : null;
}

/** Another program may have fetched only a part of the model. */
async function isComplete(folder: string, part: ModelPart): Promise<boolean> {
  const has = (name: string) => exists(join(folder, name));
  if (part === 'tokenizer') return has('tokenizer.json');
  if (!(await has('config.json'))) return false;
  const shards = readWeightIndex(folder) ?? ['model.safetensors'];
  return (await Promise.all(shards.map(has))).every(Boolean);
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
