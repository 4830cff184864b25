// The modules of an adapter: the matrices A and B of each, from adapter_model.safetensors, and their scale.

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ModelLoadError } from '../../errors.ts';
import type { TensorSource } from '../../ops/weights.ts';
import { firstMatches } from '../../util/foreign-patterns.ts';
import { Checkpoint } from '../source/checkpoint.ts';
import { readSafetensors, type StoredTensor } from '../source/safetensors.ts';
import { type AdapterConfig, readAdapterConfig } from './adapter-config.ts';
import { endPattern, wholePattern } from './module-patterns.ts';

const WEIGHTS = 'adapter_model.safetensors';
/** `base_model.model.` and the name of the module in the original implementation. */
const LORA_TENSOR = /^(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight$/;

/** Tensors of other adapters, by how their names are recognised. */
const REFUSED: readonly (readonly [RegExp, string])[] = [
  [/lora_embedding_|(?:embed_tokens|wte|wpe|embed_in)\./, 'adapts the embeddings'],
  [/lora_magnitude_vector/, 'is a size of DoRA'],
  [/(?:lm_head|embed_out)\./, 'adapts the output head'],
  [/\.bias$/, 'is a trained bias'],
  // Its layers are numbered as those that read text are.
  [
    /(?:^|\.)(?:vision_model|vision_tower|visual|connector|multi_modal_projector)\./,
    'adapts the part that sees images',
  ],
];

export interface AdapterModule {
  /** As the adapter names it, without `base_model.model.`. */
  readonly name: string;
  /** [rank, k] */
  readonly a: TensorSource;
  /** [n, rank] */
  readonly b: TensorSource;
  readonly rank: number;
  /** Factor on B · (A · x). */
  readonly scale: number;
}

export interface AdapterFiles {
  readonly config: AdapterConfig;
  readonly modules: readonly AdapterModule[];
  /** @throws ModelLoadError where somebody has written into the weights since they were opened. */
  expectUnchanged(): void;
}

/**
 * Opens an adapter; no weight is read.
 * @throws ModelLoadError naming the file, the tensor or the field, and what was expected.
 */
export function openAdapter(folder: string, maxRank: number): AdapterFiles {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new ModelLoadError(
      `${folder} is no folder: an adapter is a folder on this machine, as PEFT writes it`,
    );
  }
  const config = readAdapterConfig(folder);
  const path = join(folder, WEIGHTS);
  if (!existsSync(path)) {
    const other = existsSync(join(folder, 'adapter_model.bin'));
    const hint = other
      ? '; adapter_model.bin is in a format that svc does not read: save it as safetensors'
      : '';
    throw new ModelLoadError(`${folder} holds no ${WEIGHTS}${hint}`);
  }
  const stored = readSafetensors(path);
  const checkpoint = new Checkpoint(folder, [path], () => stored);
  const names = [...pairsOf(path, stored)];
  expectTargets(config, names);
  const scales = scalesOf(config, names);
  const modules = names.map((name, i) => {
    const [a, b] = ['A', 'B'].map((matrix) => tensorOf(stored, name, matrix)!);
    const { rank, scale } = scales[i]!;
    expectRank(path, name, a!, rank, config, maxRank);
    const [, k] = shapeOf(path, a!, [rank, null]);
    const [n] = shapeOf(path, b!, [null, rank]);
    return {
      name,
      rank,
      scale,
      a: checkpoint.find(a!.name, [rank, k]),
      b: checkpoint.find(b!.name, [n, rank]),
    };
  });
  return { config, modules, expectUnchanged: () => checkpoint.expectUnchanged() };
}

interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/** Names of the modules that have both matrices. */
function pairsOf(path: string, stored: ReadonlyMap<string, StoredTensor>): Set<string> {
  const modules = new Set<string>();
  for (const name of stored.keys()) {
    const refused = REFUSED.find(([pattern]) => pattern.test(name));
    if (refused) throw new ModelLoadError(`${path}: ${name} ${refused[1]}, which is not supported`);
    const module = LORA_TENSOR.exec(name)?.[1];
    if (module === undefined) {
      throw new ModelLoadError(`${path}: ${name} is no matrix of LoRA (….lora_A.weight, ….lora_B.weight)`);
    }
    modules.add(module);
  }
  if (modules.size === 0) throw new ModelLoadError(`${path} holds no tensor`);
  for (const module of modules) {
    const missing = ['A', 'B'].find((matrix) => tensorOf(stored, module, matrix) === null);
    if (missing) throw new ModelLoadError(`${path}: lora_${missing} of ${module} is missing; fetch it again`);
  }
  return modules;
}

function tensorOf(
  stored: ReadonlyMap<string, StoredTensor>,
  module: string,
  matrix: string,
): NamedTensor | null {
  const ends = [`lora_${matrix}.weight`, `lora_${matrix}.default.weight`];
  const name = ['base_model.model.', '']
    .flatMap((prefix) => ends.map((end) => `${prefix}${module}.${end}`))
    .find((one) => stored.has(one));
  return name === undefined ? null : { name, shape: stored.get(name)!.shape };
}

/** @throws ModelLoadError where there are weights of a module that the configuration does not name, or names as one to leave out. */
function expectTargets(config: AdapterConfig, names: readonly string[]): void {
  const { path, target_modules: targets, exclude_modules: excluded, layers_to_transform: layers } = config;
  const areTargets =
    targets === 'all-linear' ? names.map(() => true) : areNamed(names, targets, `${path}: target_modules`);
  const strange = names.find((name, i) => !areTargets[i] || !isInLayers(name, layers));
  const fields = 'target_modules and layers_to_transform do not name';
  if (strange !== undefined) throw notTogether(path, fields, strange);
  if (!excluded?.length) return;
  const areExcluded = areNamed(names, excluded, `${path}: exclude_modules`);
  const left = names.find((_, i) => areExcluded[i]);
  if (left !== undefined) throw notTogether(path, 'exclude_modules leaves out', left);
}

function notTogether(path: string, says: string, module: string): ModelLoadError {
  return new ModelLoadError(
    `${path}: ${says} ${module}, of which ${WEIGHTS} has weights; the files do not belong together`,
  );
}

type ModuleNames = AdapterConfig['target_modules'];

/** Of each module whether a field of the configuration names it, in one of PEFT's two ways. */
function areNamed(modules: readonly string[], names: ModuleNames, what: string): boolean[] {
  if (typeof names !== 'string') return modules.map((module) => isNamed(module, names));
  return firstMatches(modules, [wholePattern(names)], what).map((match) => match === 0);
}

/** Whether a list names a module; what is no list names all. */
export function isNamed(module: string, names: ModuleNames): boolean {
  if (!Array.isArray(names)) return true;
  return names.some((name) => module === name || module.endsWith(`.${name}`));
}

export function isInLayers(module: string, layers: readonly number[] | null): boolean {
  const layer = /\.(\d+)\./.exec(module)?.[1];
  return layers === null || (layer !== undefined && layers.includes(Number(layer)));
}

/** Of each module: alpha / rank, or with rank-stabilised LoRA alpha / sqrt(rank) (Kalajdzievski, 2023). */
function scalesOf(config: AdapterConfig, names: readonly string[]): { rank: number; scale: number }[] {
  const { path, r, lora_alpha, use_rslora, rank_pattern, alpha_pattern } = config;
  const valuesOf = (field: string, values: Readonly<Record<string, number>>, usual: number): number[] => {
    const keys = Object.keys(values);
    const matches = firstMatches(names, keys.map(endPattern), `${path}: ${field}`);
    return matches.map((match) => (match < 0 ? usual : values[keys[match]!]!));
  };
  const ranks = valuesOf('rank_pattern', rank_pattern, r);
  const alphas = valuesOf('alpha_pattern', alpha_pattern, lora_alpha);
  return ranks.map((rank, i) => {
    const scale = alphas[i]! / (use_rslora ? Math.sqrt(rank) : rank);
    if (Number.isFinite(Math.fround(scale))) return { rank, scale };
    throw new ModelLoadError(
      `${path}: alpha ${alphas[i]} (lora_alpha, alpha_pattern) of ${names[i]}, of rank ${rank}, multiplies its weights by ${scale}, ` +
        'more than a number of float32; fetch it again',
    );
  });
}

function expectRank(
  path: string,
  module: string,
  { shape }: NamedTensor,
  rank: number,
  config: AdapterConfig,
  maxRank: number,
): void {
  if (rank > maxRank) {
    throw new ModelLoadError(
      `${config.path}: rank ${rank} of ${module} is larger than --max-lora-rank ${maxRank}; start with --max-lora-rank ${rank}`,
    );
  }
  if (shape[0] === rank) return;
  throw new ModelLoadError(
    `${path}: lora_A of ${module} is [${shape.join(', ')}], ${config.path} says rank ${rank}; the files do not belong together`,
  );
}

/** @throws ModelLoadError where the tensor does not have two dimensions, or one that is given is another. */
function shapeOf(
  path: string,
  { name, shape }: NamedTensor,
  expected: readonly [number | null, number | null],
): readonly [number, number] {
  const [rows, cols] = shape;
  const fits = expected.every((size, i) => size === null || size === shape[i]);
  if (shape.length === 2 && rows && cols && fits) return [rows, cols];
  const wanted = expected.map((size) => size ?? 'any').join(', ');
  throw new ModelLoadError(`${path}: ${name} must be [${wanted}], it is [${shape.join(', ')}]`);
}
