// Who takes a request: what every policy can be asked. The router asks; policies know instances and prompts, no HTTP.

import type { Instance } from '../instance.ts';
import type { PromptShape } from '../prompt.ts';

/** What a policy may look at. */
export type Candidate = Pick<Instance, 'ordinal' | 'run' | 'numRequests'>;

export interface Policy {
  /** One of `candidates`, which are in stable order and never empty. */
  pick<C extends Candidate>(candidates: readonly C[], prompt: PromptShape): C;
  /** Tokens at the beginning of the prompt that the instance has seen lately; 0 where the policy does not know. */
  knownTokens(instance: Candidate, prompt: PromptShape): number;
  /** The instance has computed the prompt. */
  served(instance: Candidate, prompt: PromptShape): void;
}
