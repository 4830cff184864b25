// A checkpoint may have an output head although its config.json ties it to the embeddings: mostly the same numbers once more,
// and sometimes others, such as those of a head that was trained apart from them.

import { closeSync, readSync } from 'node:fs';
import type { TensorSource } from '../../ops/weights.ts';
import { openModelFile } from '../../util/model-file.ts';
import type { ModelConfig } from '../model-config.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { TensorNames } from '../tensor-names.ts';

/** Samples tell them apart: a head that was trained differs nearly everywhere, and reading all takes as long as loading it. */
const SAMPLES = 64;
const SAMPLE_BYTES = 4096;

/** Whether the checkpoint has a head that is not its embeddings, although its config.json says so. */
export function hasOwnHead(
  checkpoint: Checkpoint,
  { vocabSize, hiddenSize, tieWordEmbeddings, pooling }: ModelConfig,
  { embedding, head }: TensorNames,
): boolean {
  const hasLogits = pooling === null || (pooling.task === 'score' && pooling.head.kind === 'tokens');
  if (!tieWordEmbeddings || !hasLogits) return false;
  const names = [`${embedding}.weight`, `${head}.weight`];
  const [table, own] = names;
  const dtype = checkpoint.dtypeOf(own!);
  if (dtype === null || checkpoint.dtypeOf(table!) !== dtype) return false;
  const [a, b] = names.map((name) => checkpoint.find(name, [vocabSize, hiddenSize]));
  return !haveEqualSamples(a!, b!);
}

export function ownHeadNote(path: string, { head }: TensorNames): string {
  return (
    `${path}: the output head is ${head}.weight, which is not the embeddings, although tie_word_embeddings in config.json says ` +
    'so: set it to false'
  );
}

function haveEqualSamples(a: TensorSource, b: TensorSource): boolean {
  const files = [a, b].map(({ path }) => openModelFile(path));
  try {
    const last = Math.max(0, a.byteLength - SAMPLE_BYTES);
    return Array.from({ length: SAMPLES }, (_, i) => Math.floor((last * i) / (SAMPLES - 1))).every((at) =>
      sample(files[0]!, a, at).equals(sample(files[1]!, b, at)),
    );
  } finally {
    for (const file of files) closeSync(file);
  }
}

function sample(file: number, { byteOffset, byteLength }: TensorSource, at: number): Buffer {
  const bytes = Buffer.alloc(Math.min(SAMPLE_BYTES, byteLength - at));
  return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, byteOffset + at));
}
