// Lists the models that were downloaded from either hub, and removes them.

import { rm } from 'node:fs/promises';
import { ModelLoadError, messageOf } from '../errors.ts';
import { AlternativeHub } from './alternative-hub.ts';
import { isFileError } from './file-states.ts';
import { withLock } from './lock.ts';
import { MainHub } from './main-hub.ts';
import type { CachedModel } from './model-cache.ts';
import type { HubOptions, ModelHub } from './model-hub.ts';

interface CachedHubModel extends CachedModel {
  /** Address of the hub that it is from. */
  readonly hub: string;
}

function hubs(options: HubOptions, env: NodeJS.ProcessEnv): readonly ModelHub[] {
  return [new MainHub(env, options), new AlternativeHub(env, options)];
}

/** Of both hubs. */
export async function cachedModels(
  options: HubOptions = {},
  env: NodeJS.ProcessEnv = process.env,
): Promise<CachedHubModel[]> {
  const found = hubs(options, env).map(async (hub) =>
    (await hub.cachedModels()).map((model) => ({ ...model, hub: hub.name })),
  );
  return (await Promise.all(found)).flat();
}

/**
 * Removes all revisions of a model.
 * @returns what was removed, of either hub.
 * @throws ModelLoadError where there is no such model, or another process downloads it now.
 */
export async function removeModel(
  name: string,
  options: HubOptions = {},
  env: NodeJS.ProcessEnv = process.env,
): Promise<readonly CachedModel[]> {
  const models = await cachedModels(options, env);
  const meant = models.filter((model) => model.name === name);
  if (meant.length === 0) {
    const roots = [...new Set(hubs(options, env).map(({ cacheFolder }) => cacheFolder))];
    throw new ModelLoadError(
      `${name} is not in ${roots.join(' or ')}: svc models list shows what is, by the names to give here`,
    );
  }
  for (const { path, lock } of meant) {
    await withLock(
      lock,
      () => rm(path, { recursive: true }),
      () => {
        throw new ModelLoadError(
          `${name} is being downloaded by another process: end that one first (${lock})`,
        );
      },
    ).catch((error: unknown) => {
      throw isFileError(error)
        ? new ModelLoadError(`${path} cannot be removed: ${messageOf(error)}`, { cause: error })
        : error;
    });
  }
  return meant;
}
