import { expect, it } from 'vitest';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import type { OutputDelta } from '../../src/engine/inference-engine.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

const NUM_SAMPLES = 30;

it('joining the deltas of many samples leaves turns to others', async () => {
  const deltas = Array.from(
    { length: NUM_SAMPLES },
    (_, index): OutputDelta => ({
      index,
      get text() {
        busyFor(3);
        return `${index}`;
      },
      parts: null,
      tokenIds: [index],
      numReasoningTokens: 0,
      numCachedTokens: 0,
      logprobs: null,
      promptLogprobs: null,
      finish_reason: 'length',
      stop_reason: null,
      isCallCut: false,
    }),
  );
  const samples = collectSamples(deltas);
  expect(await turnsDuring(samples)).toBeGreaterThanOrEqual(NUM_SAMPLES / 3);
  expect((await samples).map(({ text }) => text)).toEqual(deltas.map(({ index }) => `${index}`));
});
