// How far the predictions of one model are from those of another, over the same tokens.

/** Means over all positions that were compared. */
export interface Comparison {
  readonly numTokens: number;
  /** exp of the mean surprise at the token that follows. */
  readonly perplexity: { readonly expected: number; readonly actual: number };
  /** Kullback-Leibler divergence of the actual distribution from the expected one, in nats. */
  readonly meanKl: number;
  /** Share of the positions at which both think the same token the most probable. */
  readonly agreement: number;
}

export class LogitComparer {
  #numTokens = 0;
  #expectedSurprise = 0;
  #actualSurprise = 0;
  #kl = 0;
  #numAgreeing = 0;

  /** Logits [vocab] of both models at one position, and the token that comes after it. */
  add(expected: Float32Array, actual: Float32Array, next: number): void {
    const [expectedNorm, actualNorm] = [logSumExp(expected), logSumExp(actual)];
    let kl = 0;
    for (const [id, logit] of expected.entries()) {
      const logprob = logit - expectedNorm;
      kl += Math.exp(logprob) * (logprob - (actual[id]! - actualNorm));
    }
    this.#numTokens += 1;
    this.#kl += kl;
    this.#expectedSurprise += expectedNorm - expected[next]!;
    this.#actualSurprise += actualNorm - actual[next]!;
    if (indexOfLargest(expected) === indexOfLargest(actual)) this.#numAgreeing += 1;
  }

  /** NaN where nothing was compared. */
  result(): Comparison {
    const count = this.#numTokens;
    return {
      numTokens: count,
      perplexity: {
        expected: Math.exp(this.#expectedSurprise / count),
        actual: Math.exp(this.#actualSurprise / count),
      },
      meanKl: this.#kl / count,
      agreement: this.#numAgreeing / count,
    };
  }
}

function logSumExp(values: Float32Array): number {
  const largest = values[indexOfLargest(values)]!;
  let sum = 0;
  for (const value of values) sum += Math.exp(value - largest);
  return largest + Math.log(sum);
}

/** The lowest among equals. */
function indexOfLargest(values: Float32Array): number {
  let largest = 0;
  for (const [i, value] of values.entries()) if (value > values[largest]!) largest = i;
  return largest;
}
