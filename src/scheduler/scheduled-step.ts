// What one engine step computes: plain data from the scheduler to the runner, which can be logged and replayed.

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
}

export interface ScheduledStep {
  readonly sequences: readonly ScheduledSequence[];
  readonly numTokens: number;
}
