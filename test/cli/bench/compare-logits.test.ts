import { describe, expect, it } from 'vitest';
import { LogitComparer } from '../../../src/cli/bench/compare-logits.ts';

const log = (...probabilities: number[]) => Float32Array.from(probabilities, Math.log);

describe('LogitComparer', () => {
  it('finds no difference between equal predictions, whatever is added to all logits', () => {
    const comparer = new LogitComparer();
    comparer.add(
      log(0.2, 0.3, 0.5),
      log(0.2, 0.3, 0.5).map((logit) => logit + 7),
      1,
    );
    const { meanKl, agreement, perplexity, numTokens } = comparer.result();
    expect(meanKl).toBeCloseTo(0, 6);
    expect({ agreement, numTokens }).toEqual({ agreement: 1, numTokens: 1 });
    expect(perplexity.expected).toBeCloseTo(1 / 0.3, 5);
    expect(perplexity.actual).toBeCloseTo(1 / 0.3, 5);
  });

  it('takes the divergence from the expected distribution, and the mean of all positions', () => {
    const comparer = new LogitComparer();
    comparer.add(log(0.75, 0.25), log(0.5, 0.5), 0);
    comparer.add(log(0.25, 0.75), log(0.75, 0.25), 0);
    const { meanKl, agreement, perplexity } = comparer.result();
    const first = 0.75 * Math.log(1.5) + 0.25 * Math.log(0.5);
    const second = 0.25 * Math.log(1 / 3) + 0.75 * Math.log(3);
    expect(meanKl).toBeCloseTo((first + second) / 2, 6);
    // Of equals the lowest counts: the first pair agrees.
    expect(agreement).toBe(0.5);
    expect(perplexity.expected).toBeCloseTo(Math.exp(-(Math.log(0.75) + Math.log(0.25)) / 2), 5);
    expect(perplexity.actual).toBeCloseTo(Math.exp(-(Math.log(0.5) + Math.log(0.75)) / 2), 5);
  });
});
