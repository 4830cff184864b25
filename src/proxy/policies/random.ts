// random: any of them.

import { randomInt } from 'node:crypto';
import type { Candidate, Policy } from './policy.ts';

export class Random implements Policy {
  pick<C extends Candidate>(candidates: readonly C[]): C {
    return candidates[randomInt(candidates.length)]!;
  }
}
