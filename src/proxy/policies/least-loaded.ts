// least_loaded: the instance with the fewest requests; among equals, each in turn.

import type { Candidate, Policy } from './policy.ts';
import { RoundRobin } from './round-robin.ts';

export class LeastLoaded implements Policy {
  readonly #turn = new RoundRobin();

  pick<C extends Candidate>(candidates: readonly C[]): C {
    const loads = candidates.map(({ numRequests }) => numRequests);
    const least = Math.min(...loads);
    return this.#turn.pick(candidates.filter((_, index) => loads[index] === least));
  }
}
