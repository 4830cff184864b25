// A state with a table of what may follow it: a transfer that goes another way is a defect, and says so.

export type Transitions<S extends string> = Readonly<Record<S, readonly S[]>>;

export class State<S extends string> {
  readonly #table: Transitions<S>;
  #now: S;

  constructor(table: Transitions<S>, first: S) {
    this.#table = table;
    this.#now = first;
  }

  get now(): S {
    return this.#now;
  }

  /** Whether it is one of these. */
  is(...states: readonly S[]): boolean {
    return states.includes(this.#now);
  }

  go(next: S): void {
    if (!this.#table[this.#now].includes(next)) {
      throw new Error(`a transfer cannot go from ${this.#now} to ${next}`);
    }
    this.#now = next;
  }
}
