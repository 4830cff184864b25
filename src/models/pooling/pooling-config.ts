// What a pooling model makes of a text, in the place of further tokens: a vector, or a score of two texts.

import type { EngineConfig } from '../../config/engine-config.ts';
import type { Activation } from '../../ops/activation.ts';

/** Whose hidden states stand for the sequence: the first token's, the last one's, or the mean of all. */
export type PooledRows = 'cls' | 'last' | 'mean';

export type HeadActivation = Activation | 'tanh' | 'none';

/** A product of an embedding model that follows its pooling. */
export interface DenseLayer {
  /** Of its folder: its tensors are `name.linear.weight` [outputs, inputs] and, where it has one, `name.linear.bias`. */
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly hasBias: boolean;
  readonly activation: HeadActivation;
}

/** What embedding models want before a text, by what the text is for. */
export interface TextPrompts {
  readonly texts: ReadonlyMap<string, string>;
  /** The name of the one before texts of which nothing is said; null is none. */
  readonly defaultName: string | null;
}

/** A vector of a text. */
export interface EmbeddingConfig {
  readonly task: 'embed';
  readonly rows: PooledRows;
  /** In their order. */
  readonly dense: readonly DenseLayer[];
  /** Numbers of a vector. */
  readonly size: number;
  /** Whether vectors are brought to length 1. */
  readonly isNormalized: boolean;
  /** Lengths that a vector may be cut to, beside its own (Kusupati et al., "Matryoshka Representation Learning", 2022). */
  readonly dimensions: 'any' | readonly number[];
  readonly prompts: TextPrompts;
}

/** How well two texts fit together. */
export interface ScoringConfig {
  readonly task: 'score';
  readonly rows: PooledRows;
  /** What scores are made of: a number of a classifier, or of two labels or tokens, the difference of the first and the second. */
  readonly head: LabelHead | TokenHead;
  readonly activation: 'sigmoid' | 'none';
  /** How two texts become one prompt: as the tokenizer joins pairs, or in the words that Qwen3's rerankers were trained on. */
  readonly prompt: 'pair' | 'qwen3';
}

export interface LabelHead {
  readonly kind: 'classifier';
  readonly numLabels: 1 | 2;
}

export interface TokenHead {
  readonly kind: 'tokens';
  /** One token or two. */
  readonly tokenIds: readonly number[];
}

export type PoolingConfig = EmbeddingConfig | ScoringConfig;

/** Numbers that a model gives for each sequence. */
export function pooledSize(pooling: PoolingConfig): number {
  if (pooling.task === 'embed') return pooling.size;
  return pooling.head.kind === 'tokens' ? pooling.head.tokenIds.length : pooling.head.numLabels;
}

/** What the options ask of a model that could be several things; `auto` is what its files say. */
export type PoolingChoice = Pick<EngineConfig, 'runner' | 'convert'>;

export const BY_FILES: PoolingChoice = { runner: 'auto', convert: 'auto' };
