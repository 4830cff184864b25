// What a step that was handed to the backend gave its sequences.

import { NO_TOKEN, type Pending } from '../ops/ops.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { ScheduledStep, SequenceOutput, StepResult } from '../scheduler/scheduled-step.ts';
import type { KnownLogprobs } from './prompt-logprobs.ts';
import type { SampledRows } from './sample-rows.ts';

/** A step that the backend computes. */
export interface InFlightStep {
  readonly step: ScheduledStep;
  /** Its `read` returns when the step is computed up to the layer that `forward` was given. */
  readonly planPoint: Pending<void>;
  /** A row for each sequence that samples, in their order; null where none does. */
  readonly sampled: SampledRows | null;
  readonly knownLogprobs: Pending<KnownLogprobs>;
}

/** Waits until the step is computed. */
export function readStep({ step, sampled, knownLogprobs }: InFlightStep): StepResult {
  const tokens = sampled?.tokens.read();
  const logprobs = sampled?.logprobs.read();
  let row = 0;
  const outputs = step.sequences.map(({ sampling }): SequenceOutput | null => {
    if (sampling === null) return null;
    const output = outputOf(tokens![row]!, logprobs![row]!);
    row += 1;
    return output;
  });
  return { outputs, ...knownLogprobs.read() };
}

function outputOf(tokenId: number, logprobs: Logprobs | null): SequenceOutput {
  return tokenId === NO_TOKEN ? { kind: 'brokenLogits' } : { kind: 'tokens', tokenIds: [tokenId], logprobs };
}
