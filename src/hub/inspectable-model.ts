// The texts of a model and the size of its weights, found without downloading the weights.

import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isOffline } from '../config/environment.ts';
import { ModelLoadError } from '../errors.ts';
import { isGgufPath } from '../util/model-file.ts';
import type { DownloadOptions } from './download.ts';
import { exists, sizeOf } from './file-states.ts';
import { type HubModelName, parseModelName } from './model-name.ts';
import { filesIn, neededFiles } from './needed-files.ts';
import { resolveModel, selectHub } from './resolve-model.ts';

export interface InspectableModel {
  /** Folder with its config.json, or a GGUF file. */
  readonly path: string;
  /** Of all files that hold weights. */
  readonly weightBytes: number;
  /** Whether the weights are on this machine. */
  readonly isDownloaded: boolean;
}

const WEIGHTS = /\.(safetensors|gguf)$/i;

/**
 * Downloads config.json where the model is not on this machine.
 * @throws ModelLoadError where there is no such model, or its configuration is in the weights that are not there.
 */
export async function inspectableModel(
  nameOrPath: string,
  options: DownloadOptions = {},
): Promise<InspectableModel> {
  const name = parseModelName(nameOrPath);
  if (name === null || (await exists(nameOrPath))) return localModel(await resolveModel(nameOrPath, options));
  const copy = await localCopy(nameOrPath, options);
  if (copy !== null) return localModel(copy);
  // It says that the hub may not be asked, and what is missing here.
  if (isOffline(options.env ?? process.env)) return localModel(await resolveModel(nameOrPath, options));
  return remoteModel(nameOrPath, name, options);
}

async function localModel(path: string): Promise<InspectableModel> {
  return { path, weightBytes: await localWeightBytes(path), isDownloaded: true };
}

/** Null where the weights are not all on this machine. */
async function localCopy(name: string, options: DownloadOptions): Promise<string | null> {
  const env = { ...(options.env ?? process.env), HF_HUB_OFFLINE: '1' };
  return resolveModel(name, { ...options, env }).catch((error: unknown) => {
    if (error instanceof ModelLoadError) return null;
    throw error;
  });
}

async function remoteModel(
  text: string,
  { repository, revision, gguf }: HubModelName,
  options: DownloadOptions,
): Promise<InspectableModel> {
  const hub = await selectHub(options.env ?? process.env, {
    ...options,
    revision: options.revision ?? revision,
  });
  const { files } = await hub.list(repository);
  const needed = neededFiles(
    files.map(({ path }) => path),
    { repository, part: 'model', gguf },
  );
  if (needed.some(isGgufPath)) {
    throw new ModelLoadError(
      `${text} tells of itself in its weights alone: svc download ${text} fetches them`,
    );
  }
  const weights = files.filter(({ path }) => needed.includes(path) && WEIGHTS.test(path));
  return {
    path: await resolveModel(text, { ...options, part: 'config' }),
    weightBytes: weights.reduce((sum, { size }) => sum + size, 0),
    isDownloaded: false,
  };
}

async function localWeightBytes(path: string): Promise<number> {
  const isGguf = isGgufPath(path);
  const folder = isGguf ? dirname(path) : path;
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    const isFile = error.code === 'ENOTDIR';
    throw new ModelLoadError(
      isFile ? `${path} is a file: expected the folder of a model, or a *.gguf file` : error.message,
    );
  });
  const needed = isGguf
    ? neededFiles(names, { repository: folder, part: 'gguf', gguf: { file: basename(path) } })
    : neededFiles(await filesIn(folder), { repository: path, part: 'model', gguf: null });
  const sizes = needed.filter((name) => WEIGHTS.test(name)).map((name) => sizeOf(join(folder, name)));
  return (await Promise.all(sizes)).reduce<number>((sum, size) => sum + (size ?? 0), 0);
}
