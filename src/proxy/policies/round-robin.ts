// round_robin: each in turn, in the order in which they came; one that joins or leaves does not change the turn of others.

import type { Candidate, Policy } from './policy.ts';

export class RoundRobin implements Policy {
  #last = -1;

  pick<C extends Candidate>(candidates: readonly C[]): C {
    const next = candidates.find(({ ordinal }) => ordinal > this.#last) ?? candidates[0]!;
    this.#last = next.ordinal;
    return next;
  }
}
