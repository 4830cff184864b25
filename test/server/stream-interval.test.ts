// Fewer events say what more of them say, sample by sample.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { OutputDelta } from '../../src/engine/inference-engine.ts';
import { type AnswerPart, joinedParts } from '../../src/parsers/answer-parts.ts';
import { everyFewTokens } from '../../src/server/stream-interval.ts';

const NUM_SAMPLES = 2;
const INTERVAL = 3;

const part: fc.Arbitrary<AnswerPart> = fc.oneof(
  fc.record({ kind: fc.constantFrom('reasoning', 'content', 'arguments'), text: fc.constantFrom('a', 'é') }),
  fc.constant({ kind: 'call' as const, name: 'run', isCustom: true as const }),
);
/** Tokens of a step, which may be part of a thought and may have no text yet. */
const step = fc.record({
  index: fc.nat(NUM_SAMPLES - 1),
  tokenIds: fc.array(fc.nat(99), { maxLength: 4 }),
  numReasoningTokens: fc.nat(2),
  parts: fc.array(part, { maxLength: 3 }),
});

function deltaOf(fields: Partial<OutputDelta>): OutputDelta {
  const { tokenIds = [], parts = [] } = fields;
  const position = { logprob: -1, rank: 1, token: null, top: [] };
  return {
    index: 0,
    text: (parts ?? []).map((one) => ('text' in one ? one.text : one.name)).join(''),
    parts,
    tokenIds,
    numReasoningTokens: 0,
    numCachedTokens: 0,
    logprobs: tokenIds.map((tokenId) => ({ tokenId, ...position })),
    promptLogprobs: null,
    finish_reason: null,
    stop_reason: null,
    isCallCut: false,
    ...fields,
  };
}

async function joined(deltas: readonly OutputDelta[], index: number): Promise<OutputDelta[]> {
  const all: OutputDelta[] = [];
  for await (const delta of everyFewTokens(deltas, INTERVAL)) if (delta.index === index) all.push(delta);
  return all;
}

/** All that the deltas of a sample say. */
function said(deltas: readonly OutputDelta[]) {
  return {
    text: deltas.map(({ text }) => text).join(''),
    parts: joinedParts(deltas.flatMap(({ parts }) => parts ?? [])),
    tokenIds: deltas.flatMap(({ tokenIds }) => tokenIds),
    numReasoningTokens: deltas.reduce((sum, { numReasoningTokens }) => sum + numReasoningTokens, 0),
    logprobs: deltas.flatMap(({ logprobs }) => logprobs ?? []),
    ends: deltas.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null),
  };
}

describe('a stream with several tokens an event', () => {
  it('says of each sample what it says token by token', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const ends = [0, 1].map((index) => deltaOf({ index, finish_reason: 'stop' }));
        const deltas = [...steps.map(deltaOf), ...ends];
        for (const index of [0, 1]) {
          const single = deltas.filter((delta) => delta.index === index);
          const several = await joined(deltas, index);
          expect(said(several)).toEqual(said(single));
          for (const { tokenIds } of several.slice(1, -1)) {
            expect(tokenIds.length).toBeGreaterThanOrEqual(INTERVAL);
          }
        }
      }),
    );
  });

  it('has each call, though nothing is said between two of them', async () => {
    const call: AnswerPart = { kind: 'call', name: 'run', isCustom: true };
    const [, last] = await joined(
      [deltaOf({}), deltaOf({ parts: [call] }), deltaOf({ parts: [call], finish_reason: 'stop' })],
      0,
    );
    expect(last?.parts).toEqual([call, call]);
  });
});
