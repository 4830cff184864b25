// The policy of each name.

import type { PolicyName } from '../../config/proxy-options.ts';
import { LeastLoaded } from './least-loaded.ts';
import type { Policy } from './policy.ts';
import { PrefixAware } from './prefix-aware.ts';
import { Random } from './random.ts';
import { RoundRobin } from './round-robin.ts';

const POLICIES: Readonly<Record<PolicyName, new () => Policy>> = {
  round_robin: RoundRobin,
  random: Random,
  least_loaded: LeastLoaded,
  prefix_aware: PrefixAware,
};

/** A new one: prefill and decode instances have a policy each. */
export function makePolicy(name: PolicyName): Policy {
  return new POLICIES[name]();
}
