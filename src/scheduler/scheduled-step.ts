// What one engine step computes and what comes of it: plain data between the scheduler and the runner, which can be
// logged and replayed.

import type { Logprobs } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import type { SequenceSampling } from './request.ts';

/** The part of one sequence that this step computes. */
export interface ScheduledSequence {
  readonly requestId: number;
  /** New tokens, in order; the first one stands at `firstPosition` of the sequence. */
  readonly tokenIds: readonly number[];
  readonly firstPosition: number;
  readonly blocks: readonly number[];
  /** Null while the step ends inside the prompt: nothing is sampled then. */
  readonly sampling: SequenceSampling | null;
  /** Null samples from the logits as they are. */
  readonly edits: RowEdits | null;
  /** Null where no tokens of the prompt are to be compared with their logits. */
  readonly promptScoring: PromptScoring | null;
}

/** Tokens of the prompt whose log-probabilities are wanted. */
export interface PromptScoring {
  /** Which of the step's tokens of this sequence stands before the first of them. */
  readonly firstToken: number;
  readonly tokenIds: readonly number[];
  readonly numTop: number;
}

export interface ScheduledStep {
  readonly sequences: readonly ScheduledSequence[];
  readonly numTokens: number;
}

/** What a step computed, one entry a sequence of the step in each list. */
export interface StepResult {
  /** Null where nothing was sampled. */
  readonly tokenIds: readonly (number | null)[];
  /** One row for the sampled token; null where nobody asked. */
  readonly logprobs: readonly (Logprobs | null)[];
  /** Rows for the tokens of `promptScoring`, in pieces. */
  readonly promptLogprobs: readonly (readonly Logprobs[])[];
}
