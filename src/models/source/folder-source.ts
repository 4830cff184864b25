// The model source over a folder: JSON files, and one *.safetensors or several with an index.

import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ModelLoadError } from '../../errors.ts';
import { isGgufPath } from '../../util/model-file.ts';
import {
  DENSE_WEIGHTS,
  FolderFiles,
  isDenseFolder,
  readWeightIndex,
  WEIGHT_INDEX,
} from '../../util/model-files.ts';
import { Checkpoint } from './checkpoint.ts';
import { headerBytesOf, readSafetensors } from './safetensors.ts';
import { weightFingerprint } from './weight-fingerprint.ts';

export class FolderSource extends FolderFiles {
  #foundFiles: readonly string[] | null = null;

  /** Tensors of a dense layer have the name of its folder before their own. */
  openCheckpoint(): Checkpoint {
    return new Checkpoint(this.path, this.#weightFiles, (file) => {
      const [folder, tensors] = [dirname(relative(this.path, file)), readSafetensors(file)];
      if (folder === '.') return tensors;
      return new Map([...tensors].map(([name, tensor]) => [`${folder}.${name}`, tensor]));
    });
  }

  fingerprint(): string {
    const files = this.#weightFiles.map((path) => ({ path, headerBytes: headerBytesOf(path) }));
    return weightFingerprint(this.read('config.json')?.text ?? '', files);
  }

  get #weightFiles(): readonly string[] {
    this.#foundFiles ??= weightFiles(this.path);
    return this.#foundFiles;
  }
}

/**
 * Those of the index; without an index, the folder's only *.safetensors or model.safetensors. Behind them those of dense layers that
 * embeddings go through.
 */
function weightFiles(folder: string): string[] {
  const names = readWeightIndex(folder) ?? [onlyWeightFile(folder)];
  return [...names.map((name) => join(folder, name)), ...denseFiles(folder)];
}

function denseFiles(folder: string): string[] {
  const folders = readdirSync(folder).filter(isDenseFolder).sort();
  return folders.map((name) => {
    const path = join(folder, name, DENSE_WEIGHTS);
    if (existsSync(path)) return path;
    throw new ModelLoadError(
      `${path} is missing: the weights of a dense layer are read from it, and from no other format`,
    );
  });
}

function onlyWeightFile(folder: string): string {
  const names = readdirSync(folder);
  const files = names.filter((name) => name.endsWith('.safetensors'));
  if (files.includes('model.safetensors')) return 'model.safetensors';
  const [only, ...rest] = files;
  if (only !== undefined && rest.length === 0) return only;
  if (only !== undefined) {
    throw new ModelLoadError(
      `${folder} holds ${files.length} *.safetensors files and no ${WEIGHT_INDEX} that joins them`,
    );
  }
  const gguf = names.find(isGgufPath);
  if (gguf !== undefined) {
    throw new ModelLoadError(
      `${folder} holds no *.safetensors file; to serve the GGUF file in it, name it: ${join(folder, gguf)}`,
    );
  }
  const other = names.find((name) => /\.(bin|pth?)$/.test(name));
  const hint = other ? `; ${basename(other)} is in a format that svc does not read` : '';
  throw new ModelLoadError(`${folder} holds no *.safetensors file${hint}`);
}
