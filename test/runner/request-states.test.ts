import { describe, expect, it } from 'vitest';
import { NO_TOKEN, type SampledTokens } from '../../src/ops/ops.ts';
import { buildForwardInputs } from '../../src/runner/batch-inputs.ts';
import { RequestStates } from '../../src/runner/request-states.ts';
import {
  PENDING_TOKEN,
  type ScheduledSequence,
  type ScheduledStep,
} from '../../src/scheduler/scheduled-step.ts';
import { GREEDY } from '../helpers/new-request.ts';

function sequence(requestId: number, parts: Partial<ScheduledSequence> = {}): ScheduledSequence {
  return {
    requestId,
    tokenIds: [1],
    firstPosition: 0,
    isLong: false,
    adapterId: null,
    numDraftTokens: 0,
    newBlocks: [],
    sampling: GREEDY,
    promptLogprobs: null,
    resumedLogprobs: null,
    send: null,
    ...parts,
  };
}

function stepOf(sequences: readonly ScheduledSequence[], released: readonly number[] = []): ScheduledStep {
  const numTokens = sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  return { releasedRequestIds: released, sequences, numTokens, tileWork: [] };
}

const sampled = (...ids: number[]): SampledTokens => ({ read: () => Int32Array.from(ids) });
const unread: SampledTokens = {
  read: () => {
    throw new Error('the tokens of the latest step must not be waited for');
  },
};

describe('RequestStates', () => {
  it('extends the block table of each request by what a step brings', () => {
    const requests = new RequestStates();
    requests.apply(stepOf([sequence(1, { newBlocks: [[7, 3]] }), sequence(2, { newBlocks: [[5]] })]));
    requests.apply(stepOf([sequence(2, { newBlocks: [[9]] }), sequence(1)]));
    expect(requests.tablesOf(1)).toEqual([[7, 3]]);
    expect(requests.tablesOf(2)).toEqual([[5, 9]]);
  });

  it('forgets released requests, also one that comes back in the same step with other blocks', () => {
    const requests = new RequestStates();
    requests.apply(stepOf([sequence(1, { newBlocks: [[7]] }), sequence(2, { newBlocks: [[5]] })]));
    requests.apply(stepOf([sequence(2, { newBlocks: [[8, 9]] })], [1, 2]));
    expect(requests.tablesOf(2)).toEqual([[8, 9]]);
    expect(() => requests.tablesOf(1)).toThrow('request 1 has no block table');
  });

  it('keeps a table of its own: a step that changes later changes nothing', () => {
    const requests = new RequestStates();
    const newBlocks = [7];
    requests.apply(stepOf([sequence(1, { newBlocks: [newBlocks] })]));
    newBlocks.push(8);
    expect(requests.tablesOf(1)).toEqual([[7]]);
  });

  it('names the newest token by its row in the latest step, without waiting for it', () => {
    const requests = new RequestStates();
    const step = stepOf([sequence(1), sequence(2, { sampling: null }), sequence(3)]);
    requests.apply(step);
    requests.noteSampled(step, unread);
    expect(requests.latestSampled).toBe(unread);
    expect([requests.pendingToken(1), requests.pendingToken(3)]).toEqual([-1, -2]);
    expect(() => requests.pendingToken(2)).toThrow('no step has sampled a token of request 2');
  });

  it('reads the newest token of a request where an earlier step sampled it', () => {
    const requests = new RequestStates();
    const [first, second] = [stepOf([sequence(1), sequence(2), sequence(3)]), stepOf([sequence(3)])];
    requests.apply(first);
    requests.noteSampled(first, sampled(40, NO_TOKEN, 42));
    requests.apply(second);
    requests.noteSampled(second, unread);
    expect([1, 2, 3].map((id) => requests.pendingToken(id))).toEqual([40, 0, -1]);
  });
});

describe('buildForwardInputs', () => {
  it('flattens the tokens of a step with their positions, and slots and block tables of each group', () => {
    const groups = { blockSize: 16, windows: [null, 20] };
    const requests = new RequestStates();
    const first = stepOf([
      sequence(1, { tokenIds: [4, 5, 6], newBlocks: [[2], [3]] }),
      sequence(2, { newBlocks: [[8], [1]] }),
    ]);
    requests.apply(first);
    requests.noteSampled(first, unread);
    const second = stepOf([
      sequence(2, { tokenIds: [PENDING_TOKEN], firstPosition: 1 }),
      sequence(3, { tokenIds: [10, 11], firstPosition: 0, newBlocks: [[6], [4]] }),
      sequence(1, { tokenIds: [PENDING_TOKEN], firstPosition: 16, newBlocks: [[9], [5]] }),
    ]);
    requests.apply(second);
    const { inputs, queryStarts } = buildForwardInputs(
      second,
      { ...groups, shortContext: null, maxNumSeqs: 8 },
      requests,
    );
    const { tokens, positions, slotMapping, batch } = inputs;
    expect([...queryStarts]).toEqual([0, 1, 3, 4]);
    expect(tokens).toEqual({ ids: Int32Array.of(-2, 10, 11, -1), sampled: unread });
    expect([...positions]).toEqual([1, 0, 1, 16]);
    expect([...slotMapping]).toEqual([
      ...[8 * 16 + 1, 6 * 16, 6 * 16 + 1, 9 * 16],
      ...[1 * 16 + 1, 4 * 16, 4 * 16 + 1, 5 * 16],
    ]);
    expect(batch).toEqual({
      numSequences: 3,
      queryStarts: Int32Array.of(0, 1, 3, 4),
      contextLengths: Int32Array.of(2, 2, 17),
      blockTables: Int32Array.of(...[8, 0, 6, 0, 2, 9], ...[1, 0, 4, 0, 3, 5]),
      maxBlocks: 2,
    });
  });

  it('makes several sequences for attention of one whose images are seen whole, with the same blocks and adapter', () => {
    const requests = new RequestStates();
    const tokenIds = [4, 5, 6, 7, 8, 9];
    const step = stepOf([
      sequence(1, { adapterId: null, newBlocks: [[3]] }),
      sequence(2, { adapterId: 1, tokenIds, wholeRanges: [{ first: 1, end: 4 }], newBlocks: [[2]] }),
    ]);
    requests.apply(step);
    const limits = { blockSize: 16, windows: [null], shortContext: null, maxNumSeqs: 8 };
    const { inputs, queryStarts } = buildForwardInputs(step, limits, requests);
    expect([...queryStarts]).toEqual([0, 1, 7]);
    expect([...inputs.positions]).toEqual([0, 0, 1, 2, 3, 4, 5]);
    expect([...inputs.slotMapping]).toEqual([48, 32, 33, 34, 35, 36, 37]);
    expect([...inputs.adapters!]).toEqual([-1, 1, 1, 1]);
    expect(inputs.batch).toEqual({
      numSequences: 4,
      queryStarts: Int32Array.of(0, 1, 2, 5, 7),
      contextLengths: Int32Array.of(1, 1, 4, 6),
      blockTables: Int32Array.of(3, 2, 2, 2),
      maxBlocks: 1,
      bidirectional: Int32Array.of(0, 0, 1, 0),
    });
  });
});
