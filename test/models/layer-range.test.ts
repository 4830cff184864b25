// How the layers of a model are divided among stages.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { divideLayers } from '../../src/models/layer-range.ts';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { architectureGoldens } from './golden-cases.ts';

const TINY = readModelConfig(openModelSource(architectureGoldens()[0]!.folder), undefined);
/** Qwen2.5-0.5B: the head has the weights of nine layers. */
const SMALL: ModelConfig = {
  ...TINY,
  experts: null,
  vocabSize: 151_936,
  hiddenSize: 896,
  intermediateSize: 4864,
  numHeads: 14,
  numKvHeads: 2,
  headDim: 64,
  numLayers: 24,
};

describe('layers in stages', () => {
  it('are each in one stage, in order, at least one in each', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 80 }),
        fc.integer({ min: 1, max: 8 }),
        fc.constantFrom(100, 50_000, 1_000_000),
        (numLayers, most, vocabSize) => {
          const numStages = Math.min(numLayers, most);
          const ranges = divideLayers({ ...SMALL, numLayers, vocabSize }, numStages);
          expect(ranges).toHaveLength(numStages);
          expect(ranges[0]!.first).toBe(0);
          expect(ranges.at(-1)!.end).toBe(numLayers);
          for (const [stage, { first, end }] of ranges.entries()) {
            expect(end).toBeGreaterThan(first);
            if (stage > 0) expect(first).toBe(ranges[stage - 1]!.end);
          }
        },
      ),
    );
  });

  it('are fewer where the output head is large, and alike where it is small', () => {
    expect(divideLayers(SMALL, 2)).toEqual([
      { first: 0, end: 14 },
      { first: 14, end: 24 },
    ]);
    expect(divideLayers({ ...SMALL, vocabSize: 1000 }, 3)).toEqual([
      { first: 0, end: 8 },
      { first: 8, end: 16 },
      { first: 16, end: 24 },
    ]);
  });
});
