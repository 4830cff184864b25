// The files of a published model, by the names that every publisher gives them.

import { join } from 'node:path';
import * as z from 'zod';
import {
  type ModelBytes,
  type ModelText,
  parseModelJson,
  readModelBytes,
  readModelText,
} from './model-file.ts';

/** The texts that a model brings, each null where it has none. A folder has them as files. */
export interface ModelFiles {
  /** For messages: the folder. */
  readonly path: string;
  /** @throws ModelLoadError where the file cannot be read. */
  read(name: ModelFileName): ModelText | null;
  /**
   * A file that is no text.
   * @throws ModelLoadError where it cannot be read.
   */
  readBytes(name: typeof SENTENCEPIECE_FILE): ModelBytes | null;
}

/** The files of a tokenizer and of its chat template. */
export const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'chat_template.json',
] as const;

/** A vocabulary in the format of SentencePiece. */
export const SENTENCEPIECE_FILE = 'tokenizer.model';

/** What a tokenizer is made of where there is no tokenizer.json. */
const OLDER_TEXTS = ['vocab.json', 'merges.txt', 'added_tokens.json'] as const;
export const OLDER_TOKENIZER_FILES = [SENTENCEPIECE_FILE, ...OLDER_TEXTS] as const;

/** Whether a model of these files brings a tokenizer in one of the forms that can be read. */
export function hasTokenizer(has: (name: string) => boolean): boolean {
  return has('tokenizer.json') || has(SENTENCEPIECE_FILE) || (has('vocab.json') && has('merges.txt'));
}

/** What is made of the hidden states of an embedding model or a reranker, and how long its texts may be. */
const SENTENCE_FILES = [
  'modules.json',
  'sentence_bert_config.json',
  'config_sentence_transformers.json',
  '1_Pooling/config.json',
  '1_LogitScore/config.json',
] as const;

/** The folder of a dense layer of an embedding model, which has its shape and its weights. */
export type DenseFolder = `${number}_Dense`;

export function isDenseFolder(name: string): name is DenseFolder {
  return /^\d{1,3}_Dense$/.test(name);
}

export const DENSE_CONFIG = 'config.json';
export const DENSE_WEIGHTS = 'model.safetensors';

export type SentenceFileName = (typeof SENTENCE_FILES)[number] | `${DenseFolder}/${typeof DENSE_CONFIG}`;

export const CONFIG_FILES = [
  'config.json',
  'generation_config.json',
  'hf_quant_config.json',
  ...SENTENCE_FILES,
] as const;

/** What becomes of an image before the model sees it. */
export const IMAGE_FILES = ['preprocessor_config.json', 'processor_config.json'] as const;

/** Joins the *.safetensors of a model that has several. */
export const WEIGHT_INDEX = 'model.safetensors.index.json';

export type ModelFileName =
  | (typeof CONFIG_FILES | typeof IMAGE_FILES | typeof TOKENIZER_FILES | typeof OLDER_TEXTS)[number]
  | SentenceFileName;

export class FolderFiles implements ModelFiles {
  readonly path: string;

  constructor(folder: string) {
    this.path = folder;
  }

  read(name: ModelFileName): ModelText | null {
    return readModelText(join(this.path, name));
  }

  readBytes(name: typeof SENTENCEPIECE_FILE): ModelBytes | null {
    return readModelBytes(join(this.path, name));
  }
}

/** No longer than a file system allows. */
const FILE_NAME = /^[^/\\\0]{1,255}$/;

const weightIndex = z.object({
  // A shard is beside its index: a name with a path in it is none of ours.
  weight_map: z.record(z.string(), z.string().regex(FILE_NAME, 'must be the name of a file in the folder')),
});

/**
 * The files that the folder's index names, or null where it has no index.
 * @throws ModelLoadError where the index is malformed.
 */
export function readWeightIndex(folder: string): string[] | null {
  const index = readModelText(join(folder, WEIGHT_INDEX));
  if (index === null) return null;
  return [...new Set(Object.values(parseModelJson(index, weightIndex).weight_map))].sort();
}
