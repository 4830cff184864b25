// What the walks of a sequence through its grammar may cost. A grammar that is small may still be read in very many ways: the
// sequence that asks for it is to fail, and not those that wait beside it. What it is charged follows from its own tokens alone: each
// thing that it needs is charged once, as if nobody had found it out before.

/** Steps of some 25 ns that a sequence has at its beginning, and at most: 0.2 s. */
export const MOST_CREDIT = 8_000_000;
/** Steps that it gets with each of its tokens: 5 ms. */
const TOKEN_CREDIT = 200_000;
/** Nodes of a grammar that are entered within each other, none of which has a text of its own. */
const MAX_DEPTH = 1000;

/** A sequence has used up what its walks may cost. */
export class TooCostlyError extends Error {}

/** What finding something out costs. */
export interface Part {
  /** Without the parts that it is made of. */
  readonly steps: number;
  /** Levels that it goes down, those of its parts among them. */
  readonly depth: number;
  readonly parts: ReadonlySet<Part>;
}

/** Something that has been found out, and what that costs whoever needs it. */
export interface Kept<T> {
  readonly value: T;
  readonly part: Part;
}

/** A part that is being found out. */
class OpenPart implements Part {
  steps = 0;
  readonly parts = new Set<Part>();
  readonly #from: number;
  #deepest: number;

  /** @param from the level at which it begins */
  constructor(from: number) {
    this.#from = from;
    this.#deepest = from;
  }

  get depth(): number {
    return this.#deepest - this.#from;
  }

  reach(level: number): void {
    this.#deepest = Math.max(this.#deepest, level);
  }
}

class Measurement {
  readonly #most: number;
  #numDone = 0;
  readonly #counted = new Set<Part>();
  /** Steps of all that was needed, each part once, whether it was known before or not. */
  numNeeded = 0;

  constructor(most: number) {
    this.#most = most;
  }

  do(steps: number): void {
    this.#numDone += steps;
    this.numNeeded += steps;
    if (this.#numDone > this.#most)
      throw new TooCostlyError('the walk costs more than its sequence has left');
  }

  /** It has been done, and is not to be counted again. */
  found(part: Part): void {
    this.#counted.add(part);
  }

  need(part: Part): void {
    if (this.#counted.has(part)) return;
    this.#counted.add(part);
    this.numNeeded += part.steps;
    for (const each of part.parts) this.need(each);
  }
}

/** Of an automaton. */
export class Meter {
  #measurement: Measurement | null = null;
  #open: OpenPart | null = null;
  #depth = 0;

  /** @throws TooCostlyError */
  spend(steps: number): void {
    if (this.#open !== null) this.#open.steps += steps;
    this.#measurement?.do(steps);
  }

  /** Goes one level deeper while `walk` runs. */
  descend(walk: () => void): void {
    this.#reach(this.#depth + 1);
    this.#depth += 1;
    try {
      walk();
    } finally {
      this.#depth -= 1;
    }
  }

  /** Finds out something that is kept: who needs it later calls `need` with its part. */
  keep<T>(find: () => T): Kept<T> {
    const outer = this.#open;
    const part = new OpenPart(this.#depth);
    this.#open = part;
    try {
      const kept = { value: find(), part };
      this.#measurement?.found(part);
      outer?.parts.add(part);
      outer?.reach(this.#depth + part.depth);
      return kept;
    } finally {
      this.#open = outer;
    }
  }

  /** Something that has been found out is needed. */
  need(part: Part): void {
    this.#reach(this.#depth + part.depth);
    this.#open?.parts.add(part);
    this.#measurement?.need(part);
  }

  /**
   * What `find` gives, and what it needed in all.
   * @param most steps that may be done for it.
   */
  measure<T>(most: number, find: (numNeeded: () => number) => T): { value: T; numNeeded: number } {
    const outer = this.#measurement;
    const measurement = new Measurement(most);
    this.#measurement = measurement;
    try {
      return { value: find(() => measurement.numNeeded), numNeeded: measurement.numNeeded };
    } finally {
      this.#measurement = outer;
    }
  }

  #reach(level: number): void {
    if (level > MAX_DEPTH) throw new TooCostlyError('the walk goes deeper than it may');
    this.#open?.reach(level);
  }
}

/** What is to be paid once for a thing. */
export interface Charge {
  readonly thing: unknown;
  readonly steps: number;
}

/** A point to which a credit may be set back. */
export interface CreditMark {
  readonly left: number;
  readonly spent: number;
  readonly numPaid: number;
}

/** What a sequence has left, and what it has paid for. */
export class Credit {
  #left = MOST_CREDIT;
  #spent = 0;
  readonly #paid = new Set<unknown>();
  /** In order. */
  readonly #receipts: unknown[] = [];

  get left(): number {
    return this.#left;
  }

  get mark(): CreditMark {
    return { left: this.#left, spent: this.#spent, numPaid: this.#receipts.length };
  }

  /** All that it has paid so far. */
  get spent(): number {
    return this.#spent;
  }

  hasPaid(thing: unknown): boolean {
    return this.#paid.has(thing);
  }

  /** @throws TooCostlyError where it has not so many steps left. */
  spend(steps: number): void {
    if (steps > this.#left) throw new TooCostlyError('the walk costs more than its sequence has left');
    this.#left -= steps;
    this.#spent += steps;
  }

  /** Once for each thing. */
  pay({ thing, steps }: Charge): void {
    if (this.#paid.has(thing)) return;
    this.spend(steps);
    this.#paid.add(thing);
    this.#receipts.push(thing);
  }

  payPart(part: Part): void {
    if (this.#paid.has(part)) return;
    this.pay({ thing: part, steps: part.steps });
    for (const each of part.parts) this.payPart(each);
  }

  /** It has gone on by a token. */
  refill(): void {
    this.#left = Math.min(MOST_CREDIT, this.#left + TOKEN_CREDIT);
  }

  /** As it was at that point. */
  restore({ left, spent, numPaid }: CreditMark): void {
    for (const thing of this.#receipts.splice(numPaid)) this.#paid.delete(thing);
    this.#left = left;
    this.#spent = spent;
  }
}
