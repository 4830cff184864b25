// The place of a backend among those that share one model: threads of this process, each with weights, KV cache and threads of its own,
// that run the same ops over their slices of it. `select.ts` opens their group.

/** `size` is 1, 2, 4 or 8. */
export interface RankPlace {
  readonly rank: number;
  readonly size: number;
}

/** Of a backend that has the whole model. */
export const ALONE: RankPlace = { rank: 0, size: 1 };

/** A place in a group, which threads may be sent. */
export interface RankSeat extends RankPlace {
  /** The token of the group. */
  readonly group: bigint;
}

/** Where the ranks of one model meet. */
export interface RankGroup {
  readonly seats: readonly RankSeat[];
  /** Ops that wait for other ranks, and all that come, fail and say why. To be called at the end, too: nobody can join any more. */
  break(why: string): void;
}
