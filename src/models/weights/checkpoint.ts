// The tensors of a model folder by name, whether it holds one *.safetensors or many. Models read through this.

import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { ModelLoadError } from '../../errors.ts';
import type { StorageDType } from '../../ops/dtype.ts';
import type { TensorSource } from '../../ops/ops.ts';
import { readJsonIfPresent } from '../json-file.ts';
import { readSafetensors, type StoredTensor } from './safetensors.ts';

const DTYPES: Readonly<Record<string, StorageDType>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

const INDEX = 'model.safetensors.index.json';
const index = z.object({
  // A shard lies beside its index: a name with a path in it is none of ours.
  weight_map: z.record(z.string(), z.string().regex(/^[^/\\]+$/, 'must be the name of a file in the folder')),
});

export class Checkpoint {
  readonly folder: string;
  private readonly tensors = new Map<string, StoredTensor>();
  private readonly read = new Set<string>();
  /** What each file was when its header was read. */
  private readonly states = new Map<string, string>();

  /** @throws ModelLoadError when a file is missing, cut off or not what its header says, or two have the same tensor. */
  constructor(folder: string) {
    this.folder = folder;
    for (const file of weightFiles(folder)) this.add(join(folder, file));
  }

  get names(): string[] {
    return [...this.tensors.keys()];
  }

  /**
   * Where the tensor lies.
   * @throws ModelLoadError when it is missing, has another shape or a format that svc cannot load.
   */
  find(name: string, shape: readonly number[]): TensorSource {
    const stored = this.tensors.get(name);
    const expected = `[${shape.join(', ')}]`;
    if (stored === undefined) {
      throw new ModelLoadError(
        `${this.folder}: tensor ${name} ${expected} is missing from the ${this.tensors.size} tensors ` +
          'of the checkpoint; it does not fit its config.json',
      );
    }
    const got = `[${stored.shape.join(', ')}]`;
    if (got !== expected) {
      throw new ModelLoadError(
        `${stored.path}: tensor ${name} must be ${expected} by config.json, it is ${got}`,
      );
    }
    const dtype = DTYPES[stored.dtype];
    if (dtype === undefined) {
      throw new ModelLoadError(
        `${stored.path}: tensor ${name} ${expected} must be F32, F16 or BF16, it is ${stored.dtype}`,
      );
    }
    this.read.add(name);
    const { path, byteOffset, byteLength } = stored;
    return { name, path, byteOffset, byteLength, dtype, shape };
  }

  /** Tensors that no one has asked for. */
  unread(): string[] {
    return this.names.filter((name) => !this.read.has(name));
  }

  /** @throws ModelLoadError where somebody has written into a file since its header was read. */
  expectUnchanged(): void {
    for (const [path, state] of this.states) {
      if (stateOf(path) === state) continue;
      throw new ModelLoadError(
        `${path} was changed while it was being loaded; start again once it is written completely`,
      );
    }
  }

  private add(path: string): void {
    this.states.set(path, stateOf(path));
    const tensors = readSafetensors(path);
    for (const [name, stored] of tensors) {
      const other = this.tensors.get(name);
      if (other !== undefined) {
        throw new ModelLoadError(
          `tensor ${name} is in two files, ${other.path} and ${path}; fetch the model again`,
        );
      }
      this.tensors.set(name, stored);
    }
  }
}

/** Any write changes it, as does another file in the place of this one. */
function stateOf(path: string): string {
  const status = statSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined ? 'missing' : `${status.ino} ${status.size} ${status.mtimeNs}`;
}

/** The names of the index's shards; without an index, the folder's only *.safetensors or model.safetensors. */
export function weightFiles(folder: string): string[] {
  const shards = readJsonIfPresent(join(folder, INDEX), index);
  if (shards !== null) return [...new Set(Object.values(shards.weight_map))].sort();
  const names = readdirSync(folder);
  const files = names.filter((name) => name.endsWith('.safetensors'));
  if (files.includes('model.safetensors')) return ['model.safetensors'];
  const [only, ...rest] = files;
  if (only !== undefined && rest.length === 0) return [only];
  if (only !== undefined) {
    throw new ModelLoadError(
      `${folder} holds ${files.length} *.safetensors files and no ${INDEX} that joins them`,
    );
  }
  const other = names.find((name) => /\.(bin|pth?|gguf)$/.test(name));
  const hint = other ? `; ${basename(other)} is in a format that svc does not read` : '';
  throw new ModelLoadError(`${folder} holds no *.safetensors file${hint}`);
}
