// The model source over a folder: JSON files, and one *.safetensors or several with an index.

import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ModelLoadError } from '../../errors.ts';
import { isGgufPath } from '../../util/model-file.ts';
import { FolderFiles, readWeightIndex, WEIGHT_INDEX } from '../../util/model-files.ts';
import { Checkpoint } from './checkpoint.ts';
import { headerBytesOf, readSafetensors } from './safetensors.ts';
import { weightFingerprint } from './weight-fingerprint.ts';

export class FolderSource extends FolderFiles {
  #foundFiles: readonly string[] | null = null;

  openCheckpoint(): Checkpoint {
    return new Checkpoint(this.path, this.#weightFiles, readSafetensors);
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

/** Those of the index; without an index, the folder's only *.safetensors or model.safetensors. */
function weightFiles(folder: string): string[] {
  const names = readWeightIndex(folder) ?? [onlyWeightFile(folder)];
  return names.map((name) => join(folder, name));
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
