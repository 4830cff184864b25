// What a draft model guesses for several sequences together is what it samples greedily after each alone, in one pass a token.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { DraftModel } from '../../src/runner/draft-model.ts';
import { OVERFLOWING_TOKEN, writeOverflowingModel } from '../fixtures/overflowing-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';

const MAX_LENGTH = 60;
const BLOCK_SIZE = 16;

describe.each(availableBackends)('a draft model on %s', (backend) => {
  let folder: string;
  let ops: Ops;
  let model: Model;
  beforeEach(async () => {
    folder = mkdtempSync(join(os.tmpdir(), 'svc-draft-'));
    writeTinyModel(folder, { seed: 1 });
    ops = openBackend(backend);
    model = await load();
  });
  afterEach(() => {
    ops.close();
    rmSync(folder, { recursive: true });
  });

  const load = (): Promise<Model> =>
    loadModel(openModelSource(folder), ops, {
      dtype: 'auto',
      quantization: null,
      maxModelLen: MAX_LENGTH,
      choice: { runner: 'generate', convert: 'auto' },
    });

  function start({ blocks = 64, maxBatchedTokens = 64 } = {}): DraftModel {
    const cache = ops.makeKvCache(model.kvCacheShape({ blocks, blockSize: BLOCK_SIZE, sequences: 1 }), false);
    return new DraftModel(ops, model, cache, { maxLength: MAX_LENGTH, maxBatchedTokens });
  }

  const promptOf = (id: number, length: number): number[] =>
    Array.from({ length }, (_, index) => 5 + ((id * 37 + index * 7) % 91));

  /** By a draft model that has seen nothing before. */
  function guessAfresh(tokens: readonly number[], maxTokens: number): readonly number[] {
    return start().propose([{ sequence: { id: 0, tokens }, maxTokens }])[0]!;
  }

  it('guesses for all what it guesses for each, whatever of the drafts before was right', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 }),
        fc.array(fc.array(fc.record({ maxTokens: fc.integer({ min: 1, max: 4 }), numRight: fc.nat(4) })), {
          minLength: 1,
          maxLength: 3,
        }),
        fc.integer({ min: 4, max: 64 }),
        (lengths, rounds, maxBatchedTokens) => {
          const draftModel = start({ maxBatchedTokens });
          const sequences = lengths.map((length, id) => ({ id, tokens: promptOf(id, length) }));
          for (const round of rounds) {
            // Each time for some of the sequences.
            const wishes = sequences.flatMap((sequence, index) =>
              round[index] ? [{ sequence, maxTokens: round[index].maxTokens }] : [],
            );
            const drafts = draftModel.propose(wishes);
            for (const [index, { sequence, maxTokens }] of wishes.entries()) {
              const { id, tokens } = sequence;
              expect(drafts[index]).toEqual(guessAfresh(tokens, maxTokens));
              tokens.push(...drafts[index]!.slice(0, round[id]!.numRight), 3);
            }
          }
        },
      ),
      { numRuns: backend === 'reference' ? 5 : 40, seed: 1 },
    );
  });

  it('guesses the same once more where nothing has come since', () => {
    const draftModel = start();
    const wishes = [3, 17].map((length, id) => ({
      sequence: { id, tokens: promptOf(id, length) },
      maxTokens: 3,
    }));
    const drafts = draftModel.propose(wishes);
    expect(draftModel.propose(wishes)).toEqual(drafts);
  });

  it('computes a draft of all sequences in a pass a token, what had come since the last draft in the first', () => {
    const forward = vi.spyOn(model, 'forward');
    const draftModel = start();
    const sequences = [4, 9, 17].map((length, id) => ({ id, tokens: promptOf(id, length) }));
    const rowsOfPasses = () =>
      forward.mock.calls.splice(0).map(([{ batch }]) => [...batch.queryStarts].slice(1));
    const drafts = draftModel.propose(sequences.map((sequence, id) => ({ sequence, maxTokens: 3 - id })));
    // The longest draft first.
    expect(rowsOfPasses()).toEqual([[4, 13, 30], [1, 2], [1]]);
    // All three guesses of the first were right, one of two of the second; the third has no wish.
    sequences[0]!.tokens.push(...drafts[0]!, 3);
    sequences[1]!.tokens.push(drafts[1]![0]!, 3);
    draftModel.propose(sequences.slice(0, 2).map((sequence) => ({ sequence, maxTokens: 2 })));
    expect(rowsOfPasses()).toEqual([
      [2, 3],
      [1, 2],
    ]);
  });

  it('computes no more tokens at once than it may', () => {
    const forward = vi.spyOn(model, 'forward');
    const wishes = [40, 5, 30].map((length, id) => ({
      sequence: { id, tokens: promptOf(id, length) },
      maxTokens: 1,
    }));
    start({ maxBatchedTokens: 16 }).propose(wishes);
    const numTokens = forward.mock.calls.map(([{ positions }]) => positions.length);
    expect(Math.max(...numTokens)).toBeLessThanOrEqual(16);
    expect(numTokens.reduce((sum, count) => sum + count)).toBe(40 + 5 + 30);
  });

  it('guesses nothing where its logits are broken, and for others what it guesses for them alone', async () => {
    writeOverflowingModel(folder);
    model = await load();
    const sound = promptOf(1, 9).map((id) => id % OVERFLOWING_TOKEN);
    const wishes = [sound, [5, OVERFLOWING_TOKEN, 8], sound].map((tokens, id) => ({
      sequence: { id, tokens },
      maxTokens: 3,
    }));
    const expected = guessAfresh(sound, 3);
    expect(expected).toHaveLength(3);
    expect(start().propose(wishes)).toEqual([expected, [], expected]);
  });

  it('guesses less at its longest length, and nothing where its KV memory is full, until some is freed', () => {
    const draftModel = start({ blocks: 4 });
    const wish = (id: number, length: number) => ({
      sequence: { id, tokens: promptOf(id, length) },
      maxTokens: 4,
    });
    const numGuessed = (wishes: readonly ReturnType<typeof wish>[]) =>
      draftModel.propose(wishes).map(({ length }) => length);
    expect(numGuessed([wish(1, MAX_LENGTH - 1), wish(2, 20)])).toEqual([2, 0]);
    draftModel.forget(1);
    expect(numGuessed([wish(2, 20), wish(3, MAX_LENGTH + 1)])).toEqual([4, 0]);
    // The last guess has no place in it.
    expect(start({ blocks: 2 }).propose([wish(1, 2 * BLOCK_SIZE - 3)])[0]).toHaveLength(4);
    const lengths = [MAX_LENGTH - 1, MAX_LENGTH];
    expect(lengths.map((length) => draftModel.expects(wish(1, length).sequence))).toEqual([true, false]);
  });
});
