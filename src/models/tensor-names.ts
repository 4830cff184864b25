// What a checkpoint calls the parts of a decoder. Some are published under several names: alone, or as a part of a larger
// model.

import type { Checkpoint } from './source/checkpoint.ts';

export interface TensorNames {
  readonly embedding: string;
  /** Layer i is `layers.i`. */
  readonly layers: string;
  readonly finalNorm?: string | undefined;
  /** Where embeddings are normalised before the first layer. */
  readonly embeddingNorm?: string | undefined;
  readonly head: string;
  /** Embeddings of positions, [max positions, hidden], where they are learned. */
  readonly positions?: string | undefined;
  /** Rows of it before that of the first position; left out, none. */
  readonly positionOffset?: number | undefined;
}

/** The names that an architecture knows itself by. */
export interface PublishedNames extends Omit<TensorNames, 'head'> {
  /** All names but the head's begin with one of these: the first under which the checkpoint has embeddings. */
  readonly roots: readonly string[];
  /** The first that the checkpoint has. */
  readonly heads: readonly string[];
}

/** Those that most architectures use. */
export const USUAL_NAMES: PublishedNames = {
  roots: ['model.'],
  embedding: 'embed_tokens',
  layers: 'layers',
  finalNorm: 'norm',
  heads: ['lm_head'],
};

/** What the names of a model's own tensors begin with, beside its layers. */
export function rootOf(
  { layers }: TensorNames,
  { tensorNames }: { readonly tensorNames: PublishedNames },
): string {
  return layers.slice(0, -tensorNames.layers.length);
}

/** Where none fits, the first, so that the missing tensor is named. */
export function findTensorNames(checkpoint: Checkpoint, names: PublishedNames): TensorNames {
  const { roots, heads, embedding, layers } = names;
  const has = (name: string): boolean => checkpoint.has(`${name}.weight`);
  const root = roots.find((name) => has(name + embedding)) ?? roots[0]!;
  return {
    embedding: root + embedding,
    layers: root + layers,
    finalNorm: names.finalNorm && root + names.finalNorm,
    embeddingNorm: names.embeddingNorm && root + names.embeddingNorm,
    head: heads.find(has) ?? heads[0]!,
    positions: names.positions && root + names.positions,
    positionOffset: names.positionOffset,
  };
}
