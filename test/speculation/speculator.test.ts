import { describe, expect, it } from 'vitest';
import { Speculator } from '../../src/speculation/speculator.ts';

const CONFIG = { method: 'ngram', numSpeculativeTokens: 5, promptLookupMax: 3, promptLookupMin: 1 } as const;
const LOOP = { id: 1, tokens: [1, 2, 1, 2] };

describe('Speculator', () => {
  it('gives one sequence a whole draft, several shorter ones, and none where a step has many rows', () => {
    const speculator = new Speculator(CONFIG);
    expect([1, 2, 3, 4, 7, 8, 9].map((count) => speculator.maxDraftTokens(count, count))).toEqual([
      5, 3, 1, 1, 0, 0, 0,
    ]);
    expect(speculator.maxDraftTokens(8, 1)).toBe(0);
    const many = new Speculator({ ...CONFIG, numSpeculativeTokens: 12 });
    expect([1, 2, 12].map((count) => many.maxDraftTokens(count, count))).toEqual([12, 5, 0]);
  });

  it('counts drafts, and what of them was accepted at which place', () => {
    const speculator = new Speculator(CONFIG);
    speculator.verified(LOOP, 5, 2);
    speculator.verified(LOOP, 3, 0);
    speculator.verified(LOOP, 4, 1);
    expect(speculator.stats).toEqual({
      drafts: 3,
      draftTokens: 12,
      acceptedTokens: 3,
      acceptedPerPosition: [2, 1, 0, 0, 0],
    });
  });

  it('pauses longer each time that a draft was all wrong, and not after one that was partly right', () => {
    const speculator = new Speculator(CONFIG);
    const tokens = [1, 2, 1, 2];
    const sequence = { id: 1, tokens };
    /** Tokens that are sampled until there is a draft again. */
    const pauseAfter = (numAccepted: number): number => {
      speculator.verified(sequence, 5, numAccepted);
      tokens.push(1, 2);
      for (let waited = 0; ; waited += 1) {
        if (speculator.propose([{ sequence, maxTokens: 5 }]).get(1)?.length) return waited;
        tokens.push(tokens.length % 2 === 0 ? 1 : 2);
      }
    };
    expect([0, 0, 0, 0].map(pauseAfter)).toEqual([0, 1, 3, 7]);
    for (let misses = 0; misses < 6; misses += 1) pauseAfter(0);
    expect(pauseAfter(0)).toBe(63);
    expect(pauseAfter(1)).toBe(0);
    expect(pauseAfter(0)).toBe(0);
  });

  it('expects a draft only where it would propose one', () => {
    const speculator = new Speculator(CONFIG);
    expect(speculator.expectsDraft(LOOP)).toBe(true);
    expect(speculator.expectsDraft({ id: 2, tokens: [1, 2, 3] })).toBe(false);
    speculator.verified(LOOP, 5, 0);
    expect(speculator.expectsDraft(LOOP)).toBe(false);
    speculator.forget(LOOP.id);
    expect(speculator.expectsDraft(LOOP)).toBe(true);
  });

  it('guesses for a sequence from nothing but its tokens, whatever one of the same id had that is forgotten', () => {
    const speculator = new Speculator(CONFIG);
    const draftOf = (tokens: readonly number[]) =>
      speculator.propose([{ sequence: { id: 1, tokens }, maxTokens: 1 }]).get(1);
    expect(draftOf([1, 2, 3, 1])).toEqual([2]);
    speculator.forget(1);
    expect(draftOf([7, 8, 9, 6, 7])).toEqual([8]);
  });
});
