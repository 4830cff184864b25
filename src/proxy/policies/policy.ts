// Which of several instances takes a request. Policies know instances and prompts, no HTTP.

import type { PromptShape } from '../endpoints/prompt.ts';
import type { Instance } from '../instance.ts';

/** What a policy may look at. */
export type Candidate = Pick<Instance, 'ordinal' | 'run' | 'numRequests'>;

export interface Policy {
  /** One of `candidates`, which are in stable order and never empty. */
  pick<C extends Candidate>(candidates: readonly C[], prompt: PromptShape): C;
  /** Tokens at the beginning of the prompt that the instance has seen lately; missing where the policy does not know. */
  knownTokens?(instance: Candidate, prompt: PromptShape): number;
  served?(instance: Candidate, prompt: PromptShape): void;
}
