// The state of each request between two steps: its block tables, and the place of its newest token until the token is read. A step
// brings changes only.

import { NO_TOKEN, type SampledTokens } from '../ops/ops.ts';
import { numSampledRows, type ScheduledStep } from '../scheduler/scheduled-step.ts';

interface RequestState {
  /** [groups] */
  readonly tables: number[][];
  /** Where layers keep their states of it, where they do; no other request has the same at the same time. */
  readonly slot: number;
  /** The tokens of a step, its newest one in row `row`; null before a step has sampled one. */
  sampled: SampledTokens | null;
  row: number;
}

export class RequestStates {
  readonly #states = new Map<number, RequestState>();
  /** Below the number of all that were ever taken, those that nobody has, the one that was given back last at the end. */
  readonly #freeSlots: number[] = [];
  #latestSampled: SampledTokens | null = null;

  /** The tokens of the latest sampling step. `pendingToken` gives rows of them. */
  get latestSampled(): SampledTokens | null {
    return this.#latestSampled;
  }

  /** Brings the block tables up to `step`. */
  apply({ releasedRequestIds, sequences }: ScheduledStep): void {
    for (const requestId of releasedRequestIds) this.#release(requestId);
    for (const { requestId, newBlocks } of sequences) {
      const known = this.#states.get(requestId);
      if (known === undefined) {
        const tables = newBlocks.map((blocks) => [...blocks]);
        const slot = this.#freeSlots.pop() ?? this.#states.size;
        this.#states.set(requestId, { tables, slot, sampled: null, row: 0 });
      } else {
        for (const [group, blocks] of newBlocks.entries()) known.tables[group]!.push(...blocks);
      }
    }
  }

  #release(requestId: number): void {
    const known = this.#states.get(requestId);
    if (known === undefined) return;
    this.#states.delete(requestId);
    this.#freeSlots.push(known.slot);
  }

  /** Where the states of a request are: below the number of requests that run at the same time. */
  slotOf(requestId: number): number {
    return this.#stateOf(requestId).slot;
  }

  /** The block tables of a request, one a group: block ids in the order of its tokens. */
  tablesOf(requestId: number): readonly (readonly number[])[] {
    return this.#stateOf(requestId).tables;
  }

  /** Notes where the tokens of `step` will be: `tokens` has the rows of each sequence that samples, in their order. */
  noteSampled({ sequences }: ScheduledStep, tokens: SampledTokens): void {
    this.#latestSampled = tokens;
    let row = 0;
    for (const sequence of sequences) {
      if (sequence.sampling === null) continue;
      const state = this.#stateOf(sequence.requestId);
      // The row of a draft's newest token is known once the draft is read, and then the token itself is known.
      state.sampled = sequence.numDraftTokens === 0 ? tokens : null;
      state.row = row;
      row += numSampledRows(sequence);
    }
  }

  /**
   * The newest token of a request as ops take it: -1 - row where it is being sampled in `latestSampled`, else its id.
   * Waits for a token of an earlier step: an op takes the tokens of one step only.
   */
  pendingToken(requestId: number): number {
    const { sampled, row } = this.#stateOf(requestId);
    if (sampled === null) throw new Error(`no step has sampled a token of request ${requestId}`);
    if (sampled === this.#latestSampled) return -1 - row;
    const tokenId = sampled.read()[row]!;
    // As ops take it. The request ends with an error.
    return tokenId === NO_TOKEN ? 0 : tokenId;
  }

  #stateOf(requestId: number): RequestState {
    const state = this.#states.get(requestId);
    if (state === undefined) throw new Error(`request ${requestId} has no block table`);
    return state;
  }
}
