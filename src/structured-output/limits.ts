// What a constraint may cost: everything that a client sends is compiled within these bounds or refused by an error.

import { InvalidRequestError } from '../errors.ts';

export interface CompileLimits {
  /** Characters of a pattern or grammar, and of the JSON text of a schema. */
  readonly maxSourceLength: number;
  /** States of one automaton over bytes. */
  readonly maxDfaStates: number;
  /** Steps of the whole compilation, some 10 ns each. */
  readonly maxWork: number;
  /** Objects, arrays and rules of the whole grammar. */
  readonly maxNodes: number;
  /** Shapes that a value may have at one place. */
  readonly maxAlternatives: number;
  /** Levels of nesting of what is generated, and of the constraint itself. */
  readonly maxDepth: number;
}

export const DEFAULT_LIMITS: CompileLimits = {
  maxSourceLength: 1_000_000,
  maxDfaStates: 50_000,
  maxWork: 50_000_000,
  maxNodes: 20_000,
  maxAlternatives: 256,
  maxDepth: 256,
};

/** What is asked for cannot be enforced, or costs more than it may; the message names the keyword and where it is. */
export class ConstraintError extends InvalidRequestError {}

/** What one compilation may still spend. */
export class Budget {
  readonly limits: CompileLimits;
  /** The part of the constraint that is being compiled, for messages. */
  where = 'the constraint';
  #work = 0;

  constructor(limits: CompileLimits) {
    this.limits = limits;
  }

  get left(): number {
    return this.limits.maxWork - this.#work;
  }

  spend(work: number): void {
    this.#work += work;
    if (this.#work > this.limits.maxWork)
      this.refuse(`takes more than ${this.limits.maxWork} steps to compile; make it smaller`);
  }

  /** Tries something within tighter limits; null where it costs more. What it costs is spent here as well. */
  attempt<Result>(limits: Partial<CompileLimits>, work: (budget: Budget) => Result): Result | null {
    const smaller = new Budget({ ...this.limits, ...limits });
    try {
      return work(smaller);
    } catch (thrown) {
      if (thrown instanceof ConstraintError) return null;
      throw thrown;
    } finally {
      this.spend(smaller.#work);
    }
  }

  refuse(what: string): never {
    throw new ConstraintError(`${this.where} ${what}`);
  }
}
