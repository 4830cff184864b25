import { describe, expect, it } from 'vitest';
import { toEmbedding } from '../../src/engine/pooling/vectors.ts';
import type { EmbeddingConfig } from '../../src/models/pooling/pooling-config.ts';

/** As `resolvePooling` gives it for a model of that width. */
function configOf(size: number): EmbeddingConfig {
  return {
    task: 'embed',
    rows: 'last',
    dense: [],
    size,
    isNormalized: true,
    dimensions: 'any',
    prompts: { texts: new Map(), defaultName: null },
  };
}

describe('toEmbedding', () => {
  it('brings what is kept to length 1', () => {
    const embedding = toEmbedding(Float32Array.of(3, 4, 12), configOf(3), 2);
    expect([...embedding]).toEqual([...Float32Array.of(0.6, 0.8)]);
  });

  it('leaves a vector of zeros as it is', () => {
    expect([...toEmbedding(new Float32Array(3), configOf(3), null)]).toEqual([0, 0, 0]);
  });

  it('takes time by the width, not by its square', () => {
    // The square of it would be minutes.
    const values = Float32Array.from({ length: 500_000 }, (_, index) => Math.sin(index));
    const startedAt = performance.now();
    toEmbedding(values, configOf(values.length), null);
    expect(performance.now() - startedAt).toBeLessThan(5000);
  });
});
