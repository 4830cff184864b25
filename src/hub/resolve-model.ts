// From a model's name to a place on this machine: a path that exists, or the download from one of the hubs.

import { usesAlternativeHub } from '../config/environment.ts';
import { ConfigError, ModelLoadError } from '../errors.ts';
import { isGgufPath } from '../util/model-file.ts';
import type { DownloadOptions } from './download.ts';
import { exists } from './file-states.ts';
import type { HubOptions, ModelHub } from './model-hub.ts';
import { type HubModelName, isRevision, parseModelName } from './model-name.ts';

/**
 * The path of a model: `nameOrPath` itself where it exists, else the local copy of the hub's model.
 * @throws ModelLoadError saying what is missing and what to do; ConfigError for a revision that cannot be meant.
 */
export async function resolveModel(nameOrPath: string, options: DownloadOptions = {}): Promise<string> {
  if (await exists(nameOrPath)) {
    if (options.revision) throw revisionOfPath(nameOrPath, options.revision);
    return nameOrPath;
  }
  const name = parseModelName(nameOrPath);
  if (name === null) {
    const isTokenizer = options.part === 'tokenizer';
    throw new ModelLoadError(
      `the ${isGgufPath(nameOrPath) ? 'file' : 'folder'} ${nameOrPath}${isTokenizer ? ' of the tokenizer' : ''} does not exist: ` +
        `give a folder with ${isTokenizer ? 'tokenizer.json' : 'config.json and *.safetensors'}, a *.gguf file, or a name on the hub such as ` +
        'Qwen/Qwen2.5-0.5B-Instruct or Qwen/Qwen2.5-0.5B-Instruct@main',
    );
  }
  const revision = revisionOf(nameOrPath, name, options.revision ?? null);
  // Imported here: a local folder, the usual case, does not need it.
  const { fetchModel } = await import('./download.ts');
  const hub = await selectHub(options.env ?? process.env, { ...options, revision });
  const { repository, gguf } = name;
  return fetchModel(hub, { repository, gguf, part: options.part ?? 'model' }, options);
}

function revisionOfPath(path: string, revision: string): ConfigError {
  return new ConfigError(
    `--revision ${revision}: ${path} is on this machine, where a model has one revision only: leave the option out, or name a model ` +
      'of the hub',
    { param: 'revision' },
  );
}

/** @throws ConfigError where the name and --revision differ, or --revision is none. */
function revisionOf(text: string, name: HubModelName, option: string | null): string | null {
  if (option === null || option === name.revision) return name.revision;
  if (name.revision !== null) {
    throw new ConfigError(`${text} and --revision ${option} contradict each other: give one of them`, {
      param: 'revision',
    });
  }
  if (isRevision(option)) return option;
  throw new ModelLoadError(`--revision ${option}: expected the name of a branch, a tag or a commit`);
}

/** The one place that chooses the hub. */
export async function selectHub(env: NodeJS.ProcessEnv, options: HubOptions = {}): Promise<ModelHub> {
  if (usesAlternativeHub(env)) {
    const { AlternativeHub } = await import('./alternative-hub.ts');
    return new AlternativeHub(env, options);
  }
  const { MainHub } = await import('./main-hub.ts');
  return new MainHub(env, options);
}
