import fc from 'fast-check';
import { expect, it } from 'vitest';
import { packOutputs, unpackOutputs } from '../../src/engine/packed-outputs.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';

const logprobs = { tokenIds: [3], logprobs: [-0.5], ranks: [1], numTop: 0, topIds: [], topLogprobs: [] };

const output: fc.Arbitrary<TokenOutput> = fc.record(
  {
    requestId: fc.maxSafeNat(),
    tokenIds: fc.array(fc.nat(), { maxLength: 1 }),
    pooled: fc.constant(Float32Array.of(1, 2)),
    logprobs: fc.constantFrom(null, logprobs),
    promptLogprobs: fc.constantFrom(null, [], [logprobs]),
    numCachedTokens: fc.nat(),
    admission: fc.constantFrom(null, { queuedAt: 1, loadingAt: null, scheduledAt: 2, numPrefillTokens: 3 }),
    finish: fc.constantFrom(null, { reason: 'length', stopTokenId: null } as const),
  },
  {
    requiredKeys: [
      'requestId',
      'tokenIds',
      'logprobs',
      'promptLogprobs',
      'numCachedTokens',
      'admission',
      'finish',
    ],
  },
);

it('the outputs of a step come over as they were, in their order', () => {
  fc.assert(
    fc.property(fc.array(output), (outputs) => {
      expect([...unpackOutputs(structuredClone(packOutputs(outputs)))]).toEqual(outputs);
    }),
  );
});

it('a token of which there is nothing more to say is no object of the message', () => {
  const plain = { logprobs: null, promptLogprobs: null, admission: null, finish: null };
  const { extras } = packOutputs([{ requestId: 7, tokenIds: [5], numCachedTokens: 9, ...plain }]);
  expect(extras.size).toBe(0);
});
