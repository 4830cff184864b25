// From a model's name to a folder on this machine: a folder that exists, or a download from one of the hubs.

import { stat } from 'node:fs/promises';
import { usesAlternativeHub } from '../config/environment.ts';
import { ModelLoadError } from '../errors.ts';
import type { DownloadProgress } from './download.ts';

/** One file of a model on a hub. */
export interface RemoteFile {
  /** Name inside the model's folder. */
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Hex digest of the content: plain SHA-256, or what git calls a blob. */
  readonly hash: { readonly algorithm: 'sha256' | 'git-blob'; readonly hex: string };
  readonly url: string;
}

export interface Listing {
  /** Names this state of the model: the folder of the snapshot. */
  readonly commit: string;
  readonly files: readonly RemoteFile[];
}

/** A place to download models from. */
export interface ModelHub {
  /** For messages: the address that people know. */
  readonly name: string;
  /** Where its models are kept on this machine. */
  readonly cacheFolder: string;
  /** Branch that is served. */
  readonly revision: string;
  /** Headers of every request, credentials included. */
  readonly headers: Readonly<Record<string, string>>;
  /** @throws ModelLoadError when the hub has no such model or does not show it. */
  list(model: string): Promise<Listing>;
}

export interface ResolveOptions {
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

const HUB_NAME = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/;

/**
 * The folder of a model: `nameOrPath` itself where it is a folder, else the local copy of the hub's model.
 * @throws ModelLoadError saying what is missing and what to do.
 */
export async function resolveModel(nameOrPath: string, options: ResolveOptions = {}): Promise<string> {
  const found = await stat(nameOrPath).catch(() => null);
  if (found?.isDirectory()) return nameOrPath;
  if (found !== null) {
    throw new ModelLoadError(
      `${nameOrPath} is a file: expected the folder that holds config.json and *.safetensors`,
    );
  }
  if (!HUB_NAME.test(nameOrPath)) {
    throw new ModelLoadError(
      `the folder ${nameOrPath} does not exist: give a folder with config.json and *.safetensors, or a name on the hub such as Qwen/Qwen2.5-0.5B-Instruct`,
    );
  }
  // Loaded here: a local folder, the usual case, needs none of it.
  const { fetchModel } = await import('./download.ts');
  return fetchModel(await selectHub(options.env ?? process.env), nameOrPath, options);
}

/** The one place that chooses the hub. */
export async function selectHub(env: NodeJS.ProcessEnv): Promise<ModelHub> {
  if (usesAlternativeHub(env)) {
    const { AlternativeHub } = await import('./alternative-hub.ts');
    return new AlternativeHub(env);
  }
  const { MainHub } = await import('./main-hub.ts');
  return MainHub.fromEnvironment(env);
}
