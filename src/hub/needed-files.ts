// The files of a model's page that svc reads, and whether a folder on this machine has them.

import { readdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { ModelLoadError } from '../errors.ts';
import { isGgufPath } from '../util/model-file.ts';
import {
  CONFIG_FILES,
  DENSE_CONFIG,
  DENSE_WEIGHTS,
  hasTokenizer,
  IMAGE_FILES,
  isDenseFolder,
  OLDER_TOKENIZER_FILES,
  readWeightIndex,
  TOKENIZER_FILES,
  WEIGHT_INDEX,
} from '../util/model-files.ts';
import { exists } from './file-states.ts';
import { selectGguf, selectImageEncoder } from './gguf-files.ts';
import type { GgufChoice } from './model-name.ts';

/**
 * What svc wants of a model's page: all that serves it, all that does in one of the formats of weights, all but weights, only what
 * makes text of tokens, or only what tells its shape.
 */
export type ModelPart = 'model' | 'safetensors' | 'gguf' | 'texts' | 'tokenizer' | 'config';

export interface WantedFiles {
  readonly repository: string;
  readonly part: ModelPart;
  readonly gguf: GgufChoice | null;
}

const SHARD = /-\d{5}-of-\d{5}\.safetensors$/;

/**
 * The paths that svc reads.
 * @throws ModelLoadError where the page holds nothing that can be served.
 */
export function neededFiles(paths: readonly string[], wanted: WantedFiles): string[] {
  const { repository, part } = wanted;
  const has = (name: string) => paths.includes(name);
  const tokenizer = [...TOKENIZER_FILES, ...(has('tokenizer.json') ? [] : OLDER_TOKENIZER_FILES)].filter(has);
  if (part === 'tokenizer') {
    if (hasTokenizer(has)) return tokenizer;
    throw new ModelLoadError(
      `${repository} has no tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt`,
    );
  }
  if (part === 'safetensors') expectSafetensors(paths, wanted);
  if (wantsGguf(paths, wanted)) return neededGguf(paths, wanted);
  if (!has('config.json')) {
    throw new ModelLoadError(`${repository} has no config.json: expected a model in the Hugging Face format`);
  }
  const config = [...CONFIG_FILES.filter(has), ...denseFiles(paths, DENSE_CONFIG)];
  if (part === 'config') return config;
  const texts = [...config, ...tokenizer, ...IMAGE_FILES.filter(has)];
  if (part === 'texts') return texts;
  const weights = [...neededWeights(paths, repository), ...denseWeights(paths, repository)];
  return [...texts, ...[WEIGHT_INDEX].filter(has), ...weights];
}

function neededGguf(paths: readonly string[], { repository, gguf }: WantedFiles): string[] {
  const parts = selectGguf(repository, paths, gguf);
  const encoder = selectImageEncoder(paths, parts[0]!);
  return encoder === null ? [...parts] : [...parts, encoder];
}

/** The file `name` of each dense layer that embeddings go through. */
function denseFiles(paths: readonly string[], name: string): string[] {
  return paths.filter((path) => {
    const [folder, file, ...more] = path.split('/');
    return more.length === 0 && file === name && isDenseFolder(folder!);
  });
}

function denseWeights(paths: readonly string[], repository: string): string[] {
  const missing = weightsBeside(denseFiles(paths, DENSE_CONFIG)).find((path) => !paths.includes(path));
  if (missing === undefined) return denseFiles(paths, DENSE_WEIGHTS);
  throw new ModelLoadError(
    `${repository} has no ${missing}: the weights of a dense layer are read from it, and from no other format`,
  );
}

/** @param configs of dense layers. */
function weightsBeside(configs: readonly string[]): string[] {
  return configs.map((path) => join(dirname(path), DENSE_WEIGHTS));
}

/** Where neither name nor part asks for GGUF, weights in safetensors come first. */
function wantsGguf(paths: readonly string[], { part, gguf }: WantedFiles): boolean {
  return part === 'gguf' || (part !== 'safetensors' && (gguf !== null || hasOnlyGguf(paths)));
}

function hasOnlyGguf(paths: readonly string[]): boolean {
  return paths.some(isGgufPath) && !paths.some((path) => path.endsWith('.safetensors'));
}

function expectSafetensors(paths: readonly string[], { repository, gguf }: WantedFiles): void {
  if (gguf === null && !hasOnlyGguf(paths)) return;
  const why = gguf === null ? 'holds GGUF files only' : 'is named with a GGUF file';
  throw new ModelLoadError(
    `--load-format safetensors: ${repository} ${why}: leave the option out, or name a model in safetensors`,
  );
}

function neededWeights(paths: readonly string[], repository: string): string[] {
  const weights = paths.filter((path) => /^[^/]+\.safetensors$/.test(path));
  if (weights.length === 0) {
    const others = paths.filter((path) => /\.(bin|pt|pth|onnx)$/.test(path));
    const seen = others.length > 0 ? ` (only ${others.slice(0, 3).join(', ')})` : '';
    throw new ModelLoadError(
      `${repository} has no *.safetensors${seen}: choose a model that is published as safetensors`,
    );
  }
  // Some publish the same weights a second time in the layout of their own program, or others beside them.
  const usual = weights.filter((path) => !path.startsWith('consolidated'));
  const named = paths.includes(WEIGHT_INDEX)
    ? usual.filter((path) => SHARD.test(path))
    : usual.filter((path) => path === 'model.safetensors');
  return [named, usual, weights].find((some) => some.length > 0) ?? [];
}

/** What of `folder` is to be opened, null where it does not hold all of it: another program may have fetched a part. */
export async function completeModel(folder: string, wanted: WantedFiles): Promise<string | null> {
  const paths = await filesIn(folder);
  const has = (name: string) => paths.includes(name);
  if (wanted.part === 'tokenizer') return hasTokenizer(has) ? folder : null;
  if (wantsGguf(paths, wanted)) return completeGguf(folder, paths, wanted);
  if (!has('config.json')) return null;
  if (wanted.part === 'config' || wanted.part === 'texts') return folder;
  const shards = has(WEIGHT_INDEX) ? readWeightIndex(folder) : null;
  const isWeights = (path: string) => /^[^/]+\.safetensors$/.test(path) && !SHARD.test(path);
  const dense = weightsBeside(denseFiles(paths, DENSE_CONFIG));
  const isWhole = (shards === null ? paths.some(isWeights) : shards.every(has)) && dense.every(has);
  return isWhole ? folder : null;
}

function completeGguf(
  folder: string,
  paths: readonly string[],
  { repository, gguf }: WantedFiles,
): string | null {
  try {
    return join(folder, selectGguf(repository, paths, gguf)[0]!);
  } catch (error) {
    if (error instanceof ModelLoadError) return null;
    throw error;
  }
}

/** Paths inside `folder` of all files that can be opened: a link that leads nowhere is none. */
export async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));
  const found = await Promise.all(files.map(exists));
  return files.filter((_, index) => found[index]).map((path) => relative(folder, path));
}
