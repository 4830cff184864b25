// The one place that chooses how a model is read.

import { statSync } from 'node:fs';
import { ModelLoadError } from '../../errors.ts';
import { FolderSource } from './folder-source.ts';
import type { ModelSource } from './model-source.ts';

/**
 * Opens the model at `path`, from which nothing is read yet.
 * @throws ModelLoadError where there is none.
 */
export function openModelSource(path: string): ModelSource {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) return new FolderSource(path);
  throw new ModelLoadError(
    `${path} is ${found === undefined ? 'no folder' : 'a file'}: expected the folder that holds config.json and ` +
      '*.safetensors',
  );
}
