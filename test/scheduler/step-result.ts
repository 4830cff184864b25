// What a step gives where the token does not matter.

import type { ScheduledStep, StepResult } from '../../src/scheduler/scheduled-step.ts';

/** The same token for each sequence that samples one. */
export function resultOf({ sequences }: ScheduledStep): StepResult {
  return {
    outputs: sequences.map(({ sampling }) =>
      sampling === null ? null : { kind: 'tokens', tokenIds: [7], logprobs: null },
    ),
    promptLogprobs: sequences.map(() => []),
    resumedLogprobs: sequences.map(() => []),
  };
}
