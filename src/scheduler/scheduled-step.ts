// What one engine step computes and what comes of it: plain data between the scheduler and the runner, which can be
// logged and replayed.

import type { Logprobs } from '../ops/ops.ts';
import type { SequenceSampling } from './request.ts';

/** The part of one sequence that this step computes. */
export interface ScheduledSequence {
  readonly requestId: number;
  /**
   * New tokens, in order; the first one stands at `firstPosition` of the sequence. An id of -1 - i is the token that
   * sequence i of the step before samples: it was not known when this step was planned.
   */
  readonly tokenIds: readonly number[];
  readonly firstPosition: number;
  readonly blocks: readonly number[];
  /** Null while the step ends inside the prompt: nothing is sampled then. */
  readonly sampling: SequenceSampling | null;
  /** Null where no tokens of the prompt are to be compared with their logits. */
  readonly promptScoring: TokenScoring | null;
  /** The same for tokens of the answer that were known before. */
  readonly resumedScoring: TokenScoring | null;
  /** Null where this step completes no blocks that are to be sent. */
  readonly send: BlockSend | null;
}

/** Known tokens whose log-probabilities are wanted. */
export interface TokenScoring {
  /** Which of the step's tokens of this sequence stands before the first of them. */
  readonly firstToken: number;
  readonly tokenIds: readonly number[];
  readonly numTop: number;
}

/** Blocks that other instances are to get, complete once this step is computed. */
export interface BlockSend {
  readonly transferId: number;
  /** Place of the first one among the blocks of the transfer. */
  readonly firstIndex: number;
  readonly blocks: readonly number[];
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
  /** One row for each token of `resumedScoring`. */
  readonly resumedLogprobs: readonly (readonly Logprobs[])[];
}
