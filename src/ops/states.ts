// What layers keep of each sequence from step to step in the place of keys and values, and the rules by which it follows the tokens.

import type { Vector } from './weights.ts';

/** What layers keep of each sequence from step to step where they have no keys and values: numbers that ops give a meaning to. */
export interface StateShape {
  readonly layers: number;
  /** Sequences that have one at the same time. */
  readonly slots: number;
  /** Numbers of f32 that one layer keeps of one sequence. */
  readonly width: number;
}

/**
 * Slots of states in a step. None that it writes, as `slots` or `saves`, is written twice, or read for another sequence: sequences are
 * computed side by side.
 */
export interface StateArrays {
  /** [numSequences] what each sequence goes on from, or NO_SLOT: from zeros, as it begins. */
  readonly sources: Int32Array;
  /** [numSequences] where its state is afterwards, or NO_SLOT: nowhere. */
  readonly slots: Int32Array;
  /** [sequence, tokens, slot] one after the other: where its state after so many of its tokens in this step is kept, too. */
  readonly saves: Int32Array;
  /**
   * [slot, 1 or 0, count, block * count] one after the other: states that go into KV blocks (1), in which another instance gets them, or
   * come out of blocks in which they were got (0), before the step computes anything. Left out where there are none.
   */
  readonly moves?: Int32Array | undefined;
}

/** Where a layer keeps its state of a sequence. */
export interface StatePlace {
  /** Among the layers that keep states. */
  readonly layer: number;
  /** The first number of the op's own state among those that the layer keeps. */
  readonly first: number;
}

/** A convolution over time of each channel by itself. Its state is [taps - 1, channels]: the inputs before, the oldest first. */
export interface Convolution extends StatePlace {
  /** [taps, channels]; the last tap is that of the token itself. */
  readonly weight: Vector;
  /** [channels] */
  readonly bias?: Vector | null;
  readonly activation: 'silu' | 'identity';
}

/**
 * A rule by which the state of a head, a matrix [keyDim, valueDim], follows its tokens. Its state has `headStatesWidth` numbers; their
 * order is the backend's own.
 */
export interface DeltaRule extends StatePlace {
  /** Heads of queries and keys; each is that of as many heads of values. */
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly heads: number;
  readonly valueDim: number;
  /** Whether heads of keys take turns, so that head j of values goes with head j mod keyHeads; else those of one are neighbours. */
  readonly isTiled: boolean;
  /** [heads], below 0: how fast a head forgets. */
  readonly rates: Vector;
  /** [heads] */
  readonly rateBias: Vector;
}

/** A selective scan of heads with a state [stateDim, headDim] each, of `headStatesWidth` numbers, whose order is the backend's own. */
export interface SelectiveScan extends StatePlace {
  /** Each is that of as many neighbouring heads. */
  readonly groups: number;
  readonly stateDim: number;
  readonly heads: number;
  readonly headDim: number;
  /** [heads], below 0: how fast a head forgets. */
  readonly rates: Vector;
  /** [heads] */
  readonly stepBias: Vector;
  /** [heads] what of x goes past the state. */
  readonly skips: Vector;
}

/** Columns that a state has side by side. */
const STATE_COLUMNS = 16;

/** Numbers of states [keyDim, valueDim] of heads, which have whole vectors of columns. */
export function headStatesWidth({
  heads,
  keyDim,
  valueDim,
}: Pick<DeltaRule, 'heads' | 'keyDim' | 'valueDim'>): number {
  return heads * keyDim * STATE_COLUMNS * Math.ceil(valueDim / STATE_COLUMNS);
}
