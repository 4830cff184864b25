// How router logits choose experts: the definition against what the papers say.

import { describe, expect, it } from 'vitest';
import type { Routing } from '../../../src/ops/experts.ts';
import { route } from '../../../src/ops/reference/experts.ts';
import { RefVector } from '../../../src/ops/reference/vector.ts';

const softmax = (logits: readonly number[]): number[] => {
  const weights = logits.map((logit) => Math.exp(logit));
  return weights.map((weight) => weight / weights.reduce((sum, other) => sum + other, 0));
};

function routed(logits: readonly number[], routing: Routing): { ids: number[]; weights: number[] } {
  const chosen = route(Float32Array.from(logits), routing);
  return { ids: chosen.map(({ id }) => id), weights: chosen.map(({ weight }) => weight) };
}

function expectWeights(actual: readonly number[], expected: readonly number[]): void {
  for (const [i, weight] of expected.entries()) expect(actual[i]).toBeCloseTo(weight, 6);
}

describe('routing', () => {
  const logits = [0.5, 2, -1, 1.5];

  it('weighs the chosen by the softmax over all experts', () => {
    const { ids, weights } = routed(logits, { topK: 2, scores: 'softmax', isNormalized: false });
    expect(ids).toEqual([1, 3]);
    expectWeights(weights, [softmax(logits)[1]!, softmax(logits)[3]!]);
  });

  it('weighs the chosen by the softmax over them where weights are normalised', () => {
    const { ids, weights } = routed(logits, { topK: 2, scores: 'softmax', isNormalized: true, scale: 3 });
    expect(ids).toEqual([1, 3]);
    expectWeights(
      weights,
      softmax([2, 1.5]).map((weight) => 3 * weight),
    );
  });

  it('weighs the chosen by their sigmoids, the bias left out', () => {
    const bias = new RefVector(Float32Array.of(0, -1, 1, 0));
    const { ids, weights } = routed(logits, { topK: 2, scores: 'sigmoid', isNormalized: false, bias });
    expect(ids).toEqual([2, 3]);
    expectWeights(weights, [1 / (1 + Math.exp(1)), 1 / (1 + Math.exp(-1.5))]);
  });

  it('weighs each of the chosen among those near it that were not chosen before', () => {
    const routing = { topK: 2, scores: 'softmax', isNormalized: false } as const;
    const near = [2, 1.97, 1.95, -1.96];
    const two = routed(near, { ...routing, nearness: 0.02 });
    expect(two.ids).toEqual([0, 1]);
    expectWeights(two.weights, [softmax([2, 1.97])[0]!, softmax([1.97, 1.95])[0]!]);
    const all = routed(near, { ...routing, nearness: 2 });
    expectWeights(all.weights, [softmax(near)[0]!, softmax(near.slice(1))[0]!]);
    // Logits below 0 are near by their own size.
    const below = routed([-1, -1.01, -3], { ...routing, nearness: 0.02 });
    expectWeights(below.weights, [softmax([-1, -1.01])[0]!, 1]);
  });

  it('multiplies the weight of each of the chosen by a factor of its own', () => {
    const factors = new RefVector(Float32Array.of(9, 2, 9, 0.5));
    const routing = { topK: 2, scores: 'softmax', isNormalized: true } as const;
    const { ids, weights } = routed(logits, { ...routing, factors });
    const [first, second] = routed(logits, routing).weights;
    expect(ids).toEqual([1, 3]);
    expectWeights(weights, [2 * first!, second! / 2]);
  });

  it('takes the lower id among equals', () => {
    expect(routed([1, 3, 3, 3], { topK: 2, scores: 'softmax', isNormalized: true }).ids).toEqual([1, 2]);
  });

  it('chooses from the groups whose best experts are best, together where a group has several', () => {
    // Sigmoids: the best of all is alone in the first group, the second has two that are nearly as good.
    const scores = [4, -9, 3, 3, 2, 2];
    const groups = (best: number) => ({ count: 3, kept: 1, best });
    const choose = (best: number) =>
      routed(scores, { topK: 2, scores: 'sigmoid', isNormalized: true, groups: groups(best) }).ids;
    expect(choose(1)).toEqual([0, 1]);
    expect(choose(2)).toEqual([2, 3]);
  });
});
