// The policy of each name.

import type { PolicyName } from '../../config/proxy-options.ts';
import { LeastLoaded } from './least-loaded.ts';
import type { Policy } from './policy.ts';
import { PrefixAware } from './prefix-aware.ts';
import { Random } from './random.ts';
import { RoundRobin } from './round-robin.ts';

/** Prefill and decode instances are two groups: each has a policy of its own. */
export function makePolicy(name: PolicyName): Policy {
  switch (name) {
    case 'round_robin':
      return new RoundRobin();
    case 'random':
      return new Random();
    case 'least_loaded':
      return new LeastLoaded();
    case 'prefix_aware':
      return new PrefixAware();
  }
}
