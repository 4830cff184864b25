// What is remembered of each request from one step to the next, because a step brings only what is new: its block
// tables, and where its newest token is while that has not been read.

import { NO_TOKEN, type SampledTokens } from '../ops/ops.ts';
import { numSampledRows, type ScheduledStep } from '../scheduler/scheduled-step.ts';

interface RequestState {
  /** [groups] */
  readonly tables: number[][];
  /** The step's tokens that its newest token is row `row` of; null before a step has sampled one. */
  sampled: SampledTokens | null;
  row: number;
}

export class RequestStates {
  readonly #states = new Map<number, RequestState>();
  #latestSampled: SampledTokens | null = null;

  /** The tokens that the latest sampling step samples: what `pendingToken` counts rows of. */
  get latestSampled(): SampledTokens | null {
    return this.#latestSampled;
  }

  /** Brings the block tables up to `step`. */
  apply({ releasedRequestIds, sequences }: ScheduledStep): void {
    for (const requestId of releasedRequestIds) this.#states.delete(requestId);
    for (const { requestId, newBlocks } of sequences) {
      const known = this.#states.get(requestId);
      if (known === undefined) {
        const tables = newBlocks.map((blocks) => [...blocks]);
        this.#states.set(requestId, { tables, sampled: null, row: 0 });
      } else {
        for (const [group, blocks] of newBlocks.entries()) known.tables[group]!.push(...blocks);
      }
    }
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
      // Which row of a draft is the newest token is known when it is read, and so is the token.
      state.sampled = sequence.numDraftTokens === 0 ? tokens : null;
      state.row = row;
      row += numSampledRows(sequence);
    }
  }

  /**
   * The newest token of a request as ops take it: -1 - row where it is being sampled in `latestSampled`, else its id.
   * That of an earlier step is waited for: an op takes the tokens of one step only.
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
