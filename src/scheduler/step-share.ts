// How much of the work a step takes where several are in flight, one for each stage of layers: all stages are busy when each step has
// as much of it as the others. A single stage takes what there is. Prompts that are not cut are shared by their number alone.

import type { Request } from './request.ts';

/** Most that a step computes. */
export interface StepShare {
  readonly maxSequences: number;
  readonly maxTokens: number;
}

/** See `SchedulerConfig`. */
interface StepLimits {
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly computesWholePrompts?: boolean;
  readonly wholeImageTokens?: number | null;
}

/** What there is to compute beside the prompts in flight. */
interface Work {
  readonly running: readonly Pick<Request, 'tokens' | 'numComputedTokens' | 'numPendingTokens'>[];
  readonly numWaiting: number;
  readonly numWaitingTokens: number;
}

/** Fewer rows cost a stage about as much: it waits for the weights. */
const MIN_TOKENS = 64;
/** A prompt is cut in so many pieces a stage, since the others wait while the first piece and the last are computed. */
const PIECES_PER_STAGE = 2;

export function shareOfStep(
  { running, numWaiting, numWaitingTokens }: Work,
  numStages: number,
  { maxNumSeqs, maxNumBatchedTokens, computesWholePrompts = false, wholeImageTokens = null }: StepLimits,
): StepShare {
  if (numStages === 1) return { maxSequences: Number.POSITIVE_INFINITY, maxTokens: maxNumBatchedTokens };
  const numSequences = Math.min(maxNumSeqs, running.length + numWaiting);
  const maxSequences = Math.ceil(numSequences / numStages);
  if (computesWholePrompts) return { maxSequences, maxTokens: maxNumBatchedTokens };
  const numTokens = running.reduce(
    (sum, { tokens, numComputedTokens, numPendingTokens }) =>
      sum + Math.max(numPendingTokens, tokens.length - numComputedTokens),
    numWaitingTokens,
  );
  const piece = Math.ceil(numTokens / (PIECES_PER_STAGE * numStages));
  // An image has room beside a token of each other sequence.
  const least = Math.max(MIN_TOKENS, maxSequences + (wholeImageTokens ?? 0));
  return { maxSequences, maxTokens: Math.min(maxNumBatchedTokens, Math.max(least, piece)) };
}
