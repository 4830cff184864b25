import { describe, expect, it } from 'vitest';
import { NO_TOKEN } from '../../src/ops/ops.ts';
import { readStep } from '../../src/runner/step-result.ts';
import type { ScheduledSequence, SequenceOutput } from '../../src/scheduler/scheduled-step.ts';
import { GREEDY } from '../helpers/new-request.ts';

/** What the sequences of a step get whose last `numDraftTokens` are a draft, and whose rows sample `sampled`. */
function outputsOf(
  sequences: readonly { readonly tokenIds: readonly number[]; readonly numDraftTokens: number }[],
  sampled: readonly number[],
): readonly (SequenceOutput | null)[] {
  const nothing = { adapterId: null, newBlocks: [], promptLogprobs: null, resumedLogprobs: null, send: null };
  const step = {
    releasedRequestIds: [],
    sequences: sequences.map(
      (parts, requestId): ScheduledSequence => ({
        requestId,
        firstPosition: 0,
        isLong: false,
        sampling: GREEDY,
        ...nothing,
        ...parts,
      }),
    ),
    numTokens: 0,
    tileWork: [],
  };
  const { outputs } = readStep({
    step,
    planPoint: { read: () => {} },
    sampled: {
      tokens: { read: () => Int32Array.from(sampled) },
      logprobs: { read: () => sampled.map(() => null) },
    },
    knownLogprobs: { read: () => ({ promptLogprobs: [], resumedLogprobs: [] }) },
  });
  return outputs;
}

const tokens = (...tokenIds: number[]) => ({ kind: 'tokens', tokenIds, logprobs: null });

describe('the result of a step', () => {
  it('has the tokens of a draft that were sampled, and the one that was sampled in place of the first wrong one', () => {
    const draft = { tokenIds: [1, 2, 3], numDraftTokens: 2 };
    const plain = { tokenIds: [9, 8], numDraftTokens: 0 };
    expect(outputsOf([draft, plain, draft, draft], [2, 3, 4, 7, 2, 5, 6, 5, 3, 4])).toEqual([
      tokens(2, 3, 4),
      tokens(7),
      tokens(2, 5),
      tokens(5),
    ]);
  });

  it('leaves a row without a token after accepted ones to the next step, and fails only where there is no other', () => {
    const draft = { tokenIds: [1, 2, 3], numDraftTokens: 2 };
    expect(
      outputsOf(
        [draft, draft, draft, draft],
        [2, NO_TOKEN, 4, 2, 3, NO_TOKEN, 5, NO_TOKEN, 4, NO_TOKEN, 3, 4],
      ),
    ).toEqual([tokens(2), tokens(2, 3), tokens(5), { kind: 'brokenLogits' }]);
  });
});
