// Puts an adapter onto the products of a model, one product after the other.

import { createHash, type Hash } from 'node:crypto';
import { ModelLoadError } from '../../errors.ts';
import type { ComputeDType } from '../../ops/dtype.ts';
import type { LoraNumbers, LoraPart } from '../../ops/lora.ts';
import { readTensor } from '../../ops/read-tensor.ts';
import { narrow } from '../../ops/weights.ts';
import {
  type AdapterFiles,
  type AdapterModule,
  isInLayers,
  isNamed,
  openAdapter,
} from './adapter-modules.ts';
import type { LoraTarget, TargetPiece } from './lora-target.ts';

/** An adapter that is to be loaded. */
export interface AdapterSpec {
  /** Names it among the adapters of a model; never used again. */
  readonly id: number;
  /** Folder of the adapter. */
  readonly path: string;
  readonly maxRank: number;
}

export interface LoadedAdapter {
  /** SHA-256 of all numbers that are computed with, in hex: equal digests give equal bytes. */
  readonly digest: string;
  readonly maxRank: number;
}

/** The part of a model that adapters may add to. */
interface AdaptableModel {
  /** Of the inputs of its products. */
  readonly dtype: ComputeDType;
  readonly loraTargets: readonly LoraTarget[];
}

/**
 * Loads an adapter, a product at each turn of the generator: steps may run between two of them. Steps may use the adapter
 * once the generator has returned; what it throws leaves nothing behind.
 * @throws ModelLoadError naming the file, the module and what was expected.
 */
export function* loadAdapter(
  { id, path, maxRank }: AdapterSpec,
  { loraTargets, dtype }: AdaptableModel,
): Generator<void, LoadedAdapter, void> {
  const files = openAdapter(path, maxRank);
  const modules = placed(files, path, loraTargets);
  const hash = createHash('sha256');
  try {
    for (const target of loraTargets) {
      const numbers = numbersOf(target, modules, dtype);
      if (numbers === null) continue;
      for (const module of modulesOf(target, modules)) addTo(hash, module, dtype);
      target.add(id, numbers);
      yield;
    }
    files.expectUnchanged();
  } catch (error) {
    unloadAdapter(id, loraTargets);
    throw error;
  }
  return { digest: hash.digest('hex'), maxRank: Math.max(...files.modules.map(({ rank }) => rank)) };
}

/** Frees what the adapter has taken; no step with it may begin any more. */
export function unloadAdapter(id: number, targets: readonly LoraTarget[]): void {
  for (const target of targets) target.remove(id);
}

/** The whole module, of which a rank may have a part: instances of other degrees have the same digest. */
function addTo(hash: Hash, { name, rank, scale, a, b }: AdapterModule, dtype: ComputeDType): void {
  hash.update(JSON.stringify([keyOf(name), rank, scale, a.shape, b.shape]));
  for (const matrix of [a, b]) hash.update(readTensor(matrix, dtype));
}

type Modules = ReadonlyMap<string, AdapterModule>;

/** What a module is called from its layer on: what is before depends on who has published the model. */
function keyOf(module: string): string {
  return /(?:^|\.)([^.]+\.\d+\..*)$/.exec(module)?.[1] ?? module;
}

/**
 * The adapter's modules by the names of the model's.
 * @throws ModelLoadError where the model lacks one, one has another shape, or the adapter lacks one that it says it has.
 */
function placed({ config, modules }: AdapterFiles, folder: string, targets: readonly LoraTarget[]): Modules {
  const own = new Map(
    targets.flatMap(({ pieces, k }) => pieces.map((piece) => [keyOf(piece.module), { piece, k }])),
  );
  const found = new Map<string, AdapterModule>();
  for (const module of modules) {
    const target = own.get(keyOf(module.name));
    if (target === undefined) throw unknownModule(folder, module.name, [...own.keys()]);
    const { piece, k } = target;
    const [rows, cols] = [module.b.shape[0]!, module.a.shape[1]!];
    if (rows !== piece.rows || cols !== k) {
      throw new ModelLoadError(
        `${folder}: ${module.name} adapts a weight [${rows}, ${cols}], that of the model is [${piece.rows}, ${k}]; it is an ` +
          'adapter of another model',
      );
    }
    found.set(piece.module, module);
  }
  const { target_modules: wanted, layers_to_transform: layers, exclude_modules } = config;
  const excluded = exclude_modules || [];
  const isWanted = (name: string): boolean =>
    Array.isArray(wanted) &&
    isNamed(name, wanted) &&
    !isNamed(name, excluded) &&
    isInLayers(`.${name}`, layers);
  const missing = [...own].find(([key, { piece }]) => isWanted(key) && !found.has(piece.module));
  if (missing === undefined) return found;
  throw new ModelLoadError(
    `${config.path}: target_modules names ${missing[0]}, of which adapter_model.safetensors has no weights; fetch it again`,
  );
}

function unknownModule(folder: string, module: string, known: readonly string[]): ModelLoadError {
  const kinds = [...new Set(known.map((name) => name.split('.').at(-1)!))];
  const reason = /experts\./.test(module)
    ? 'adapters of experts are not supported'
    : 'the model has no such projection, or none that adapters are supported for';
  return new ModelLoadError(`${folder}: ${module}: ${reason}; those of this model are ${kinds.join(', ')}`);
}

/** Those of a product, each once. */
function modulesOf({ pieces }: LoraTarget, modules: Modules): AdapterModule[] {
  const own = pieces.map((piece) => modules.get(piece.module));
  return [...new Set(own)].filter((module) => module !== undefined);
}

/** Null where no module of the product is adapted. */
function numbersOf(target: LoraTarget, modules: Modules, dtype: ComputeDType): LoraNumbers | null {
  const { pieces, k, n, isGateUp } = target;
  const own = pieces.map((piece) => modules.get(piece.module));
  const adapted = modulesOf(target, modules);
  if (adapted.length === 0) return null;
  const parts: LoraPart[] = [];
  const matrices: Float32Array[] = [];
  let firstColumn = 0;
  for (const [i, piece] of pieces.entries()) {
    const module = own[i];
    if (module !== undefined) {
      const before = adapted.slice(0, adapted.indexOf(module));
      const firstRank = before.reduce((sum, { rank }) => sum + rank, 0);
      parts.push({ firstColumn, columns: piece.n, firstRank, ranks: module.rank });
      matrices.push(columnsOf(module, piece, dtype));
    }
    firstColumn += piece.n;
  }
  const a = joined(adapted.map((module) => readTensor(module.a, dtype)));
  const scales = joined(adapted.map(({ rank, scale }) => new Float32Array(rank).fill(scale)));
  return { dtype, k, n, isGateUp, rank: scales.length, a, scales, parts, b: joined(matrices) };
}

/** B of a piece of the product, [n, rank]. */
function columnsOf({ b }: AdapterModule, { first, n }: TargetPiece, dtype: ComputeDType): Float32Array {
  return readTensor(narrow(b, 0, first, n), dtype);
}

function joined(arrays: readonly Float32Array[]): Float32Array {
  if (arrays.length === 1) return arrays[0]!;
  const all = new Float32Array(arrays.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const array of arrays) {
    all.set(array, start);
    start += array.length;
  }
  return all;
}
