// What a GGUF file says of what is made of the states of its model, in the files in which a folder says it.

import { ModelLoadError } from '../../../errors.ts';
import {
  DENSE_CONFIG,
  type DenseFolder,
  isDenseFolder,
  type ModelFileName,
} from '../../../util/model-files.ts';
import type { GgufKeys } from './gguf-keys.ts';

/** By their numbers in the key: none, or how modules.json's Pooling names them, or that a head scores. */
const KINDS = ['none', 'mean', 'cls', 'lasttoken', 'rank'] as const;
type Kind = (typeof KINDS)[number];

/** The head of a reranker. */
export const HEAD = { dense: 'cls.weight', output: 'cls.output.weight' } as const;

/** Products behind the pooling, by the folders in which the original has them. */
const DENSE: Readonly<Record<DenseFolder, string>> = { '2_Dense': 'dense_2', '3_Dense': 'dense_3' };

/**
 * Null where the file does not say.
 * @throws ModelLoadError where it says what is not known.
 */
export function poolingKind(keys: GgufKeys): Kind | null {
  const key = `${keys.architecture}.pooling_type`;
  const number = keys.number(key);
  if (number === null) return null;
  const kind = KINDS[number];
  if (kind !== undefined) return kind;
  throw new ModelLoadError(
    `${keys.path}: ${key} must be 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank), got ${number}; fetch the file again`,
  );
}

/** Converters of encoders write the head of a reranker, and do not say what it is for. */
export function isReranker(keys: GgufKeys): boolean {
  return poolingKind(keys) === 'rank' || Object.values(HEAD).some((name) => keys.hasTensor(name));
}

/**
 * Fields of config.json of what scores.
 * @throws ModelLoadError where there is no head.
 */
export function labelFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const shape = keys.shapeOf(HEAD.output);
  if (shape === null) {
    throw new ModelLoadError(
      `${keys.path}: tensor ${HEAD.output} is missing, of which the scores of a reranker are made; convert the model again`,
    );
  }
  const labels = keys.strings(`${keys.architecture}.classifier.output_labels`) ?? [];
  return {
    num_labels: shape.length === 1 ? 1 : shape[0],
    id2label: Object.fromEntries(labels.map((label, id) => [id, label])),
  };
}

/** The content of one of the files of an embedding model; null where the model has no such file. */
export function ggufSentenceFile(keys: GgufKeys, name: ModelFileName): object | null {
  const kind = isReranker(keys) ? 'rank' : poolingKind(keys);
  if (kind === null || kind === 'none' || kind === 'rank') return null;
  if (name === 'modules.json') return modules(keys);
  if (name === '1_Pooling/config.json') return { pooling_mode: kind };
  const [folder = '', file] = name.split('/');
  return file === DENSE_CONFIG && isDenseFolder(folder) ? denseConfig(keys, folder) : null;
}

/** That vectors are brought to length 1 the file does not say: other engines do it with all of them. */
function modules(keys: GgufKeys): object {
  const dense = Object.keys(DENSE).filter(
    (folder) => isDenseFolder(folder) && denseConfig(keys, folder) !== null,
  );
  return [
    { type: 'Transformer' },
    { type: 'Pooling', path: '1_Pooling' },
    ...dense.map((path) => ({ type: 'Dense', path })),
    { type: 'Normalize' },
  ];
}

/** What a person should know of vectors that are not those of the original; null where there is nothing. */
export function poolingNote(keys: GgufKeys): string | null {
  if (keys.architecture !== 'gemma-embedding' || denseConfig(keys, '2_Dense') !== null) return null;
  return (
    `${keys.path} was converted without the dense layers of EmbeddingGemma (dense_2, dense_3): its vectors are not those of the ` +
    'original, and fit only those of such files'
  );
}

function denseConfig(keys: GgufKeys, folder: DenseFolder): object | null {
  const shape = keys.shapeOf(`${DENSE[folder]}.weight`);
  if (shape === null) return null;
  const [out_features, in_features] = shape;
  return { in_features, out_features, bias: false, activation_function: 'Identity' };
}
