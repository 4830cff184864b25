// What a step that was handed to the backend gave its sequences.

import { NO_TOKEN, type Pending } from '../ops/ops.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import {
  numSampledRows,
  type ScheduledSequence,
  type ScheduledStep,
  type SequenceOutput,
  type StepResult,
} from '../scheduler/scheduled-step.ts';
import type { KnownLogprobs } from './prompt-logprobs.ts';
import type { SampledRows } from './sample-rows.ts';

/** A step that the backend computes. */
export interface InFlightStep {
  readonly step: ScheduledStep;
  /** Its `read` returns when the step is computed up to the layer that `forward` was given. */
  readonly planPoint: Pending<void>;
  /** The rows of each sequence that samples, in their order; null where none does. */
  readonly sampled: SampledRows | null;
  readonly knownLogprobs: Pending<KnownLogprobs>;
  /** Read first where the step must be computed whole; left out where its results are enough. */
  readonly computed?: readonly Pending<void>[];
}

/** Waits until the step is computed. */
export function readStep({ step, sampled, knownLogprobs, computed = [] }: InFlightStep): StepResult {
  for (const stage of computed) stage.read();
  const tokens = sampled?.tokens.read();
  const logprobs = sampled?.logprobs.read();
  let end = 0;
  const outputs = step.sequences.map((sequence): SequenceOutput | null => {
    const start = end;
    end += numSampledRows(sequence);
    return end === start ? null : outputOf(sequence, tokens!.slice(start, end), logprobs!.slice(start, end));
  });
  return { outputs, ...knownLogprobs.read() };
}

/** @param sampled a token after each token of the draft, and one before: those after a wrong one mean nothing */
function outputOf(
  { tokenIds, numDraftTokens }: ScheduledSequence,
  sampled: Int32Array,
  logprobs: readonly (Logprobs | null)[],
): SequenceOutput {
  const draft = tokenIds.slice(tokenIds.length - numDraftTokens);
  const wrong = draft.findIndex((tokenId, index) => tokenId !== sampled[index]);
  const numAccepted = wrong < 0 ? draft.length : wrong;
  // What comes after accepted tokens and is none is sampled again by the next step, which says so.
  const count = sampled[numAccepted] === NO_TOKEN ? numAccepted : numAccepted + 1;
  if (count === 0) return { kind: 'brokenLogits' };
  const rows = logprobs.slice(0, count).filter((row) => row !== null);
  return {
    kind: 'tokens',
    tokenIds: Array.from(sampled.subarray(0, count)),
    logprobs: rows.length > 0 ? rows : null,
  };
}
