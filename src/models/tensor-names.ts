// What a checkpoint calls the parts of a decoder. Some are published under several names: alone, or as a part of a larger
// model.

import type { Checkpoint } from './source/checkpoint.ts';

export interface TensorNames {
  readonly embedding: string;
  /** Layer i is `layers.i`. */
  readonly layers: string;
  readonly finalNorm: string;
  readonly head: string;
}

/** The names that an architecture knows itself by. */
export interface PublishedNames extends TensorNames {
  /** Stands before all of them but the head: the first under which the checkpoint has embeddings. */
  readonly roots: readonly string[];
}

/** Those that most architectures use. */
export const USUAL_NAMES: PublishedNames = {
  roots: ['model.'],
  embedding: 'embed_tokens',
  layers: 'layers',
  finalNorm: 'norm',
  head: 'lm_head',
};

/** Where no root fits, the first, so that the missing tensor is named. */
export function findTensorNames(checkpoint: Checkpoint, names: PublishedNames): TensorNames {
  const { roots, embedding, layers, finalNorm, head } = names;
  const root = roots.find((name) => checkpoint.has(`${name}${embedding}.weight`)) ?? roots[0]!;
  return { embedding: root + embedding, layers: root + layers, finalNorm: root + finalNorm, head };
}
