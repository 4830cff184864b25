// Guesses that what followed the newest tokens of a sequence before follows them again.

import { NgramIndex } from './ngram-index.ts';
import type { DraftedSequence, DraftWish, Proposer } from './proposer.ts';

export class NgramProposer implements Proposer {
  readonly #min: number;
  readonly #max: number;
  readonly #indexes = new Map<number, NgramIndex>();

  /** Looks for the newest `min` to `max` tokens. */
  constructor(min: number, max: number) {
    this.#min = min;
    this.#max = max;
  }

  expects(sequence: DraftedSequence): boolean {
    return this.#continuation(sequence, 1).length > 0;
  }

  propose(wishes: readonly DraftWish[]): readonly (readonly number[])[] {
    return wishes.map(({ sequence, maxTokens }) => this.#continuation(sequence, maxTokens));
  }

  forget(sequenceId: number): void {
    this.#indexes.delete(sequenceId);
  }

  #continuation({ id, tokens }: DraftedSequence, maxTokens: number): readonly number[] {
    let index = this.#indexes.get(id);
    if (index === undefined) {
      index = new NgramIndex(this.#min, this.#max);
      this.#indexes.set(id, index);
    }
    return index.continuation(tokens, maxTokens);
  }
}
