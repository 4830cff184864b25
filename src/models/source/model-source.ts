// Where a model is read from: its configuration, its tokenizer's files and its tensors, in whatever they are published.

import { statSync } from 'node:fs';
import { ModelLoadError } from '../../errors.ts';
import { isGgufPath } from '../../util/model-file.ts';
import type { ModelFiles } from '../../util/model-files.ts';
import type { Checkpoint } from './checkpoint.ts';
import { FolderSource } from './folder-source.ts';
import { GgufSource } from './gguf/gguf-source.ts';

export interface ModelSource extends ModelFiles {
  /**
   * Reads where each tensor is, and no weight.
   * @throws ModelLoadError where there are no weights, or their files are not what they say.
   */
  openCheckpoint(): Checkpoint;
  /**
   * Names what the model computes, in hex.
   * @throws ModelLoadError where there are no weights.
   */
  fingerprint(): string;
  /** What a person should know of files that are not read; left out or null where there is nothing. */
  readonly note?: string | null;
}

/**
 * Opens the model at `path`, from which nothing is read yet.
 * @throws ModelLoadError where there is none.
 */
export function openModelSource(path: string): ModelSource {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) return new FolderSource(path);
  if (found?.isFile() && isGgufPath(path)) return new GgufSource(path);
  throw new ModelLoadError(
    `${path} is ${found === undefined ? 'no folder' : 'a file'}: expected the folder that holds config.json and ` +
      '*.safetensors, or a *.gguf file',
  );
}
