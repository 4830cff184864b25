// The folder to load: the model that was named, or else a tiny one that svc makes itself.

import { existsSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { DownloadOptions } from '../hub/download.ts';
import { resolveModel } from '../hub/resolve-model.ts';

/** What clients call the model that svc makes itself. */
export const TINY_MODEL_NAME = 'svc-tiny';

/**
 * @param nameOrPath a folder or a name on the hub; empty is the tiny model.
 * @throws ModelLoadError where there is no such model.
 */
export async function modelFolder(nameOrPath: string, options: DownloadOptions = {}): Promise<string> {
  return nameOrPath === '' ? tinyModelFolder(options.env ?? process.env) : resolveModel(nameOrPath, options);
}

/** Made once a version of svc and kept in the cache: random weights, so its text means nothing. */
async function tinyModelFolder(env: NodeJS.ProcessEnv): Promise<string> {
  const cache = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'svc');
  const folder = join(cache, `${TINY_MODEL_NAME}-1`);
  if (existsSync(join(folder, 'config.json'))) return folder;
  const { writeTinyModel } = await import('./tiny-model.ts');
  const fresh = `${folder}.${process.pid}`;
  writeTinyModel(fresh);
  try {
    renameSync(fresh, folder);
  } catch (error) {
    rmSync(fresh, { recursive: true });
    // Another process was faster: its folder is as good.
    if (!existsSync(join(folder, 'config.json'))) throw error;
  }
  return folder;
}
