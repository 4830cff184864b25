// What becomes of the numbers of a pooling model: embeddings that are cut and brought to length 1, and scores.

import { InvalidRequestError } from '../../errors.ts';
import type { EmbeddingConfig, ScoringConfig } from '../../models/pooling/pooling-config.ts';

/** @param dimensions null keeps all. */
export function toEmbedding(
  values: Float32Array,
  { isNormalized }: EmbeddingConfig,
  dimensions: number | null,
): Float32Array {
  const kept = dimensions === null ? values : values.slice(0, dimensions);
  if (!isNormalized) return kept;
  const length = lengthOf(kept);
  // What has no direction stays as it is.
  return length === 0 ? kept : kept.map((value) => value / length);
}

/** @throws InvalidRequestError for a length that the model's embeddings cannot be cut to. */
export function checkDimensions(
  dimensions: number | null,
  { dimensions: allowed, size }: EmbeddingConfig,
): void {
  if (dimensions === null || dimensions === size) return;
  const isAllowed = allowed === 'any' ? dimensions <= size : allowed.includes(dimensions);
  if (isAllowed && dimensions > 0) return;
  throw new InvalidRequestError(
    allowed.length === 0
      ? `dimensions must be ${size} or left out: this model was not trained to have its embeddings cut, got ${dimensions}`
      : `dimensions must be ${allowed === 'any' ? `from 1 to ${size}` : [...allowed, size].join(', ')}, got ${dimensions}`,
    { param: 'dimensions' },
  );
}

/** How well two texts fit. @param values those of a scoring model: of one label, or of two tokens. */
export function toScore(values: Float32Array, { activation }: ScoringConfig): number {
  const raw = values.length === 2 ? values[0]! - values[1]! : values[0]!;
  return activation === 'none' ? raw : 1 / (1 + Math.exp(-raw));
}

/** The cosine of the angle between two embeddings; 0 where one of them has no direction. */
export function cosine(a: Float32Array, b: Float32Array): number {
  const lengths = lengthOf(a) * lengthOf(b);
  if (lengths === 0) return 0;
  // Rounding may lead a little beyond.
  return Math.min(1, Math.max(-1, dot(a, b) / lengths));
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

function lengthOf(a: Float32Array): number {
  return Math.sqrt(dot(a, a));
}
