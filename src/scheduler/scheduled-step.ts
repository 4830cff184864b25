// What one engine step computes and what comes of it: plain data between the scheduler and the executor. Nothing in it
// changes later, and everything in it can be logged, replayed or sent to another thread.

import type { PreparedImage, PromptImage } from '../images/image-processor.ts';
import type { StatePlan } from '../kv-cache/state-snapshots.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { Range } from '../util/ranges.ts';
import type { SequencePooling, SequenceSampling } from './request.ts';

/** In `tokenIds`: the newest token of the same request, which an earlier step samples and nobody has read yet. */
export const PENDING_TOKEN = -1;

/** The part of one request that this step computes. */
export interface ScheduledSequence {
  readonly requestId: number;
  /** The adapter that computes it; null is the model alone. */
  readonly adapterId: number | null;
  /** Tokens to compute, in order; the first one is at `firstPosition` of the request. */
  readonly tokenIds: readonly number[];
  readonly firstPosition: number;
  /** Whether the request is longer than the short contexts of the model. */
  readonly isLong: boolean;
  /** So many of `tokenIds`, at their end, are a draft: right as far as the row before each of them samples it. */
  readonly numDraftTokens: number;
  /** [groups] Blocks that the request has got since the step that had it last: they extend its block tables. */
  readonly newBlocks: readonly (readonly number[])[];
  /** Null while the step ends inside the prompt, and where numbers are wanted: nothing is sampled then. */
  readonly sampling: SequenceSampling | null;
  /** Null or left out where the step does not complete a sequence that numbers are wanted for. */
  readonly pooling?: SequencePooling | null;
  /** Images that have tokens among `tokenIds`; left out where there are none. */
  readonly images?: readonly PromptImage[];
  /**
   * Positions of an image whose tokens see each other: all of a range are among `tokenIds`, or have been computed before. Left out where
   * there are none.
   */
  readonly wholeRanges?: readonly Range[];
  /** By how much its first token is behind `firstPosition` for rotation, because of images before it; left out, by nothing. */
  readonly positionLag?: number;
  /** Null where no log-probabilities of prompt tokens are wanted from this step. */
  readonly promptLogprobs: LogprobTargets | null;
  /** The same for tokens of the answer that were known before. */
  readonly resumedLogprobs: LogprobTargets | null;
  /** Null where this step completes no blocks that are to be sent. */
  readonly send: BlockSend | null;
  /** Null or left out where no layer keeps a state, or nothing but the sequence's own becomes of it. */
  readonly states?: StatePlan | null;
}

/** Rows of a step that sample for one sequence, its last ones: one, and one more for each token of a draft. */
export function numSampledRows({ sampling, numDraftTokens }: ScheduledSequence): number {
  return sampling === null ? 0 : 1 + numDraftTokens;
}

/** Known tokens whose log-probabilities are wanted. */
export interface LogprobTargets {
  /** Index in the sequence's `tokenIds` of the token before the first target: its logits predict the target. */
  readonly firstRow: number;
  readonly tokenIds: readonly number[];
  readonly numTop: number;
  /** Tokens to report in the place of the most probable ones; null or left out: none. */
  readonly chosen?: readonly number[] | null;
}

/** Blocks that other instances are to get, complete once this step is computed. */
export interface BlockSend {
  readonly transferId: number;
  /** Index of the first one among the blocks of the transfer. */
  readonly firstIndex: number;
  readonly blocks: readonly number[];
}

/** What an executor takes to see a tile, in tokens of text. */
export interface EncoderCosts {
  readonly numLayers: number;
  /** In all layers, for each patch of a tile. */
  readonly ofPatch: number;
  /** For each patch and each that it looks at. */
  readonly ofPair: number;
}

/** A part of what the encoder does for a tile, layer by layer. Its first token is computed once all layers have been. */
export interface TileWork {
  readonly image: PreparedImage;
  /** Among the tiles of the image. */
  readonly tile: number;
  /** The next ones. */
  readonly numLayers: number;
}

export interface ScheduledStep {
  /**
   * Requests that have given their blocks back since the step before. Their block tables are forgotten before those of
   * `sequences` are extended: a request that was preempted may be in both.
   */
  readonly releasedRequestIds: readonly number[];
  /** Those of one adapter are neighbours: their rows are one operand of a product. */
  readonly sequences: readonly ScheduledSequence[];
  readonly numTokens: number;
  /** What is seen of images before its tokens are computed; it may be all that a step does. */
  readonly tileWork: readonly TileWork[];
}

/** What a step gave one sequence. */
export type SequenceOutput =
  | TokensOutput
  /** What a pooling model makes of the whole sequence. */
  | { readonly kind: 'pooled'; readonly values: Float32Array }
  /** The model's logits, or its numbers, were NaN or infinite: no token could be sampled. */
  | { readonly kind: 'brokenLogits' };

export interface TokensOutput {
  readonly kind: 'tokens';
  /** At least one: the accepted tokens of the draft, then the one that was sampled after them. */
  readonly tokenIds: readonly number[];
  /** One entry of one row a token; null where none were asked for. */
  readonly logprobs: readonly Logprobs[] | null;
}

/** What a step computed: one entry a sequence of the step in each list. */
export interface StepResult {
  /** Null where nothing was sampled. */
  readonly outputs: readonly (SequenceOutput | null)[];
  /** Rows for the targets of `promptLogprobs`, in pieces. */
  readonly promptLogprobs: readonly (readonly Logprobs[])[];
  /** One row for each target of `resumedLogprobs`. */
  readonly resumedLogprobs: readonly (readonly Logprobs[])[];
}
