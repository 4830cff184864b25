// From a model's name to a place on this machine: a path that exists, or the folder of a download from one of the hubs.

import { usesAlternativeHub } from '../config/environment.ts';
import { ModelLoadError } from '../errors.ts';
import type { DownloadOptions } from './download.ts';
import { exists } from './local.ts';
import type { HubOptions, ModelHub } from './model-hub.ts';

/** Part of paths and addresses; no step of it may lead upwards. */
const REVISION = /^(?!.*(^|\/)\.\.?(\/|$))[\w.-]+(\/[\w.-]+)*$/;
const HUB_NAME = /^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/;

/**
 * The path of a model: `nameOrPath` itself where it exists, else the local copy of the hub's model.
 * @throws ModelLoadError saying what is missing and what to do.
 */
export async function resolveModel(nameOrPath: string, options: DownloadOptions = {}): Promise<string> {
  if (await exists(nameOrPath)) return nameOrPath;
  if (!HUB_NAME.test(nameOrPath)) {
    throw new ModelLoadError(
      `the folder ${nameOrPath} does not exist: give a folder with config.json and *.safetensors, or a name on the hub such as Qwen/Qwen2.5-0.5B-Instruct`,
    );
  }
  const { revision } = options;
  if (revision && !REVISION.test(revision)) {
    throw new ModelLoadError(`--revision ${revision}: expected the name of a branch, a tag or a commit`);
  }
  // Imported here: a local folder, the usual case, does not need it.
  const { fetchModel } = await import('./download.ts');
  return fetchModel(await selectHub(options.env ?? process.env, options), nameOrPath, options);
}

/** The one place that chooses the hub. */
async function selectHub(env: NodeJS.ProcessEnv, options: HubOptions = {}): Promise<ModelHub> {
  if (usesAlternativeHub(env)) {
    const { AlternativeHub } = await import('./alternative-hub.ts');
    return new AlternativeHub(env, options);
  }
  const { MainHub } = await import('./main-hub.ts');
  return new MainHub(env, options);
}
