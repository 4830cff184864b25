// The model source that the options ask for: what is at the path, with other weights or other fields of config.json.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineConfig } from '../../config/engine-config.ts';
import { ConfigError } from '../../errors.ts';
import { selectGguf } from '../../hub/gguf-files.ts';
import { isGgufPath } from '../../util/model-file.ts';
import { DummySource } from './dummy-source.ts';
import { type ModelSource, openModelSource } from './model-source.ts';
import { OverriddenSource } from './overridden-source.ts';

type SourceOptions = Pick<EngineConfig, 'modelPath' | 'loadFormat' | 'hfOverrides'>;

/**
 * Opens the model of the configuration, from which nothing is read yet.
 * @throws ModelLoadError where there is none, ConfigError where it is not in the format of --load-format.
 */
export function openConfiguredSource({ modelPath, loadFormat, hfOverrides }: SourceOptions): ModelSource {
  const source = openFormat(modelPath, loadFormat);
  return hfOverrides === null ? source : new OverriddenSource(source, hfOverrides);
}

function openFormat(path: string, format: EngineConfig['loadFormat']): ModelSource {
  switch (format) {
    case 'auto':
      return openModelSource(path);
    case 'dummy':
      return new DummySource(openModelSource(path));
    case 'gguf':
      return openModelSource(isFolder(path) ? ggufIn(path) : path);
    case 'safetensors':
      if (!isGgufPath(path)) return openModelSource(path);
      throw new ConfigError(`--load-format safetensors: ${path} is a GGUF file: leave the option out`, {
        param: 'load-format',
      });
  }
}

/** The path of the folder's only GGUF model. */
function ggufIn(folder: string): string {
  const names = readdirSync(folder);
  if (names.some(isGgufPath)) return join(folder, selectGguf(folder, names, null)[0]!);
  throw new ConfigError(
    `--load-format gguf: ${folder} holds no *.gguf file: leave the option out to serve its *.safetensors, or name a GGUF file ` +
      'or a repository that has one',
    { param: 'load-format' },
  );
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
