// What each rank holds of a model, and models that cannot be shared.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { RankShare } from '../../src/models/rank-share.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { firstOfExpertGroup, NUM_EXPERT_GROUPS } from '../../src/ops/experts.ts';
import { architectureGoldens } from './golden-cases.ts';

const degree = fc.constantFrom(1, 2, 4, 8);

function sharesOf(size: number): RankShare[] {
  return Array.from({ length: size }, (_, rank) => new RankShare({ rank, size }));
}

describe('a share', () => {
  it('of columns is one range after the other, none of them empty', () => {
    fc.assert(
      fc.property(degree, fc.integer({ min: 8, max: 5000 }), (size, n) => {
        const shares = sharesOf(size).map((share) => share.of(n));
        expect(shares[0]!.first).toBe(0);
        for (const [rank, { first, count }] of shares.entries()) {
          expect(count).toBeGreaterThan(0);
          expect(first + count).toBe(shares[rank + 1]?.first ?? n);
        }
        expect(sharesOf(size)[0]!.widths(n)).toEqual(shares.map(({ count }) => count));
      }),
    );
  });

  it('is as large as the others where that is possible, else it ends with a panel', () => {
    expect(sharesOf(4)[0]!.widths(896)).toEqual([224, 224, 224, 224]);
    expect(sharesOf(2)[0]!.widths(50257)).toEqual([25136, 25121]);
  });

  it('of experts is whole groups of their sum', () => {
    fc.assert(
      fc.property(degree, fc.integer({ min: 8, max: 300 }), (size, count) => {
        const starts = Array.from({ length: NUM_EXPERT_GROUPS + 1 }, (_, group) =>
          firstOfExpertGroup(count, group),
        );
        for (const [rank, share] of sharesOf(size).entries()) {
          const { first, count: own } = share.experts(count);
          expect(first).toBe(starts[(rank * NUM_EXPERT_GROUPS) / size]);
          expect(first + own).toBe(starts[((rank + 1) * NUM_EXPERT_GROUPS) / size]);
          expect(own).toBeGreaterThan(0);
        }
      }),
    );
  });
});

describe('a model that cannot be shared', () => {
  const config = readModelConfig(
    openModelSource(architectureGoldens().find(({ name }) => name === 'llama')!.folder),
  );
  const refusal = (fields: Partial<ModelConfig>, size: number): string => {
    const share = new RankShare({ rank: 0, size });
    try {
      share.expectPossible({ ...config, numHeads: 8, numKvHeads: 8, ...fields });
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
    return '';
  };

  const scanning = (heads: number, groups: number) => {
    const scan = { heads, groups, stateDim: 8, headDim: 8, normGroups: 1, hasProjectionBias: false };
    return { layers: [true], taps: 4, hasBias: true, scan };
  };

  it.each<[Partial<ModelConfig>, number, string]>([
    [
      { numHeads: 14, numKvHeads: 2 },
      4,
      "--tensor-parallel-size 4 does not divide the model's 14 attention heads: use 1 or 2",
    ],
    [
      { numKvHeads: 4 },
      8,
      "--tensor-parallel-size 8 does not divide the model's 4 heads of keys and values: use 1, 2 or 4",
    ],
    [
      { layerWidths: [64, 2] },
      4,
      '--tensor-parallel-size 4 is more than the 2 numbers that ranks would share: use 1 or 2',
    ],
    [
      { hiddenSize: 4 },
      8,
      '--tensor-parallel-size 8 is more than the 4 numbers that ranks would share: use 1, 2 or 4',
    ],
    [
      { recurrent: scanning(6, 1) },
      4,
      "--tensor-parallel-size 4 does not divide the 6 heads of the model's scans: use 1 or 2",
    ],
    [
      { recurrent: scanning(8, 2) },
      4,
      "--tensor-parallel-size 4 does not divide the 2 groups of heads of the model's scans: use 1 or 2",
    ],
  ])('is told by which degrees it can: %o over %i', (fields, size, message) => {
    expect(refusal(fields, size)).toBe(message);
  });

  it('may be one of few experts', () => {
    const routing = { topK: 1, scores: 'softmax', isNormalized: true } as const;
    const experts = { count: 4, intermediateSize: 8, routing, layers: [true] };
    expect(refusal({ experts }, 8)).toMatch("is more than the model's 4 experts: use 1, 2 or 4");
  });

  it('has keys of all heads, which each rank keeps', () => {
    const latent = { rank: 16, queryRank: null, nopeDim: 8, ropeDim: 8, valueDim: 8 };
    expect(refusal({ numKvHeads: 1, latent }, 8)).toBe('');
  });
});
