// What the walks of a sequence through its grammar may cost. A grammar that is small may still be read in very many ways: the
// sequence that asks for it is to fail, and not those that wait beside it.

/** Steps of some 25 ns that a sequence has at its beginning, and at most: 0.2 s. */
const MOST_CREDIT = 8_000_000;
/** Steps that it gets with each of its tokens: 5 ms. */
const TOKEN_CREDIT = 200_000;
/** Nodes of a grammar that are entered within each other, none of which has a text of its own. */
const MAX_DEPTH = 1000;

/** A sequence has used up what its walks may cost. */
export class TooCostlyError extends Error {}

/** Of an automaton; it counts for the sequence that walks. */
export class Meter {
  #left = Number.POSITIVE_INFINITY;
  #depth = 0;

  /** @throws TooCostlyError */
  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new TooCostlyError('the walk costs more than its sequence has left');
  }

  /** Goes one level deeper while `walk` runs. */
  descend(walk: () => void): void {
    if (this.#depth >= MAX_DEPTH) throw new TooCostlyError('the walk goes deeper than it may');
    this.#depth += 1;
    try {
      walk();
    } finally {
      this.#depth -= 1;
    }
  }

  /** Lets `walk` spend what `credit` has. */
  charge<Result>(credit: Credit, walk: () => Result): Result {
    this.#left = credit.left;
    try {
      return walk();
    } finally {
      credit.left = Math.max(0, this.#left);
      this.#left = Number.POSITIVE_INFINITY;
    }
  }
}

/** What a sequence has left. */
export class Credit {
  left = MOST_CREDIT;

  /** It has gone on by a token. */
  refill(): void {
    this.left = Math.min(MOST_CREDIT, this.left + TOKEN_CREDIT);
  }
}
