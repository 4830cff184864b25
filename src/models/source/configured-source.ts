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
      return openModelSource(
        isFolder(path) ? join(path, selectGguf(path, readdirSync(path), null)[0]!) : path,
      );
    case 'safetensors':
      if (!isGgufPath(path)) return openModelSource(path);
      throw new ConfigError(`--load-format safetensors: ${path} is a GGUF file: leave the option out`, {
        param: 'load-format',
      });
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
