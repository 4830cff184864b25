// Who takes a request: what every policy can be asked. The router asks; policies know instances and prompts, no HTTP.

import type { PolicyName } from '../../config/proxy-options.ts';
import type { Instance } from '../instance.ts';
import type { Prompt } from '../prompt.ts';
import { LeastLoaded } from './least-loaded.ts';
import { PrefixAware } from './prefix-aware.ts';
import { Random } from './random.ts';
import { RoundRobin } from './round-robin.ts';

/** What a policy may look at. */
export type Candidate = Pick<Instance, 'ordinal' | 'run' | 'numRequests'>;

export interface Policy {
  /** One of `candidates`, which are in stable order and never empty. */
  pick<C extends Candidate>(candidates: readonly C[], prompt: Prompt): C;
  /** Tokens at the beginning of the prompt that the instance has seen lately; 0 where the policy does not know. */
  knownTokens(instance: Candidate, prompt: Prompt): number;
  /** The instance has computed the prompt. */
  served(instance: Candidate, prompt: Prompt): void;
}

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
