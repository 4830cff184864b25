// Tokens that are guessed ahead change no answer: each request gets the same with and without, to the last bit, whatever
// of a draft is accepted, rejected or cut.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import type { SpeculativeConfig } from '../../src/config/speculative-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ModelLoadError } from '../../src/errors.ts';
import { groupBadWords } from '../../src/sampling/logit-rules.ts';
import { type Logprobs, sliceRows } from '../../src/sampling/logprobs.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { newRequest } from '../helpers/new-request.ts';

/** One token is enough for a draft: many are right, and many wrong. */
const EAGER: SpeculativeConfig = {
  method: 'ngram',
  numSpeculativeTokens: 5,
  promptLookupMax: 4,
  promptLookupMin: 1,
};

let folders: string;
let folder: string;
/** Of the same vocabulary, seldom right, and with a context that is shorter than that of some answers. */
let draftFolder: string;
beforeAll(() => {
  folders = mkdtempSync(join(os.tmpdir(), 'svc-speculation-'));
  [folder, draftFolder] = [join(folders, 'model'), join(folders, 'draft')];
  writeTinyModel(folder, { seed: 1 });
  writeTinyModel(draftFolder, { seed: 1, config: { num_hidden_layers: 2, max_position_embeddings: 70 } });
});
afterAll(() => rmSync(folders, { recursive: true }));

/** What a request gets: of each output what depends neither on the time nor on what is in the cache. */
type Answer = readonly Omit<TokenOutput, 'admission' | 'numCachedTokens'>[];

/** When a request is added and, unless null, aborted: before that step. */
interface Stay {
  readonly from: number;
  readonly until: number | null;
}

function run(core: EngineCore, requests: readonly NewRequest[], stays: readonly Stay[] = []): Answer[] {
  const outputs: TokenOutput[] = [];
  const isLeft = (step: number) => stays.some(({ from }) => from >= step);
  for (let step = 0; step === 0 || isLeft(step) || core.hasUnfinished; step += 1) {
    expect(step).toBeLessThan(10_000);
    for (const [index, one] of requests.entries()) {
      if ((stays[index]?.from ?? 0) === step) core.scheduler.add(one);
      if (stays[index]?.until === step) core.scheduler.abort(one.id);
    }
    core.awaitPlanPoint();
    outputs.push(...(core.step() ?? []).flatMap((finished) => finished.outputs));
  }
  const plain = outputs.map(({ admission: _, numCachedTokens: __, promptLogprobs, ...output }) => ({
    ...output,
    promptLogprobs: promptLogprobs?.flatMap(rowsOf) ?? null,
  }));
  return requests.map(({ id }) => plain.filter(({ requestId }) => requestId === id));
}

/** Chunks of the prompt come in pieces of any size. */
function rowsOf(piece: Logprobs): Logprobs[] {
  return Array.from(piece.tokenIds, (_, row) => sliceRows(piece, row, row + 1));
}

const tokensOf = (answer: Answer): number[] => answer.flatMap(({ tokenIds }) => tokenIds);

const anyMethod: fc.Arbitrary<() => SpeculativeConfig> = fc.oneof(
  fc
    .record({
      method: fc.constant('ngram' as const),
      numSpeculativeTokens: fc.integer({ min: 1, max: 12 }),
      promptLookupMin: fc.integer({ min: 1, max: 2 }),
      promptLookupMax: fc.integer({ min: 2, max: 4 }),
    })
    .map((config) => () => config),
  fc
    .record({ numSpeculativeTokens: fc.integer({ min: 1, max: 7 }), isTheSame: fc.boolean() })
    .map(({ numSpeculativeTokens, isTheSame }) => () => ({
      method: 'draft_model' as const,
      numSpeculativeTokens,
      model: isTheSame ? folder : draftFolder,
    })),
);

/** Prompts that quote themselves; with few tokens allowed an answer repeats itself even where it is drawn by chance. */
const anyRequest = fc.record({
  text: fc.nat(2),
  promptLength: fc.integer({ min: 1, max: 50 }),
  numResumed: fc.constantFrom(0, 0, 0, 5),
  sampling: fc.record({
    temperature: fc.constantFrom<number>(0, 0, 0.5, 1),
    topK: fc.constantFrom(0, 20),
    topP: fc.constantFrom<number>(1, 0.9),
    seed: fc.nat(3),
    sample: fc.nat(2),
    numLogprobs: fc.constantFrom(null, 0, 3),
  }),
  numPromptLogprobs: fc.constantFrom(null, null, null, 2),
  stopTokenIds: fc.constantFrom([], [], [280], [30, 178]),
  maxTokens: fc.integer({ min: 1, max: 60 }),
  rules: fc.option(
    fc.record({
      repetitionPenalty: fc.constantFrom(1, 1.3),
      frequencyPenalty: fc.constantFrom(0, 0.3),
      presencePenalty: fc.constantFrom(0, 0, -0.5),
      biases: fc.constantFrom([], [[30, 3] as const, [40, -50] as const]),
      allowedTokenIds: fc.constantFrom(null, Int32Array.of(30, 40, 50)),
      minTokens: fc.nat(20),
      badWords: fc.constantFrom(groupBadWords([]), groupBadWords([[50], [30, 30, 40]])),
    }),
  ),
});

function requestOf(
  id: number,
  parts: typeof anyRequest extends fc.Arbitrary<infer T> ? T : never,
): NewRequest {
  const { text, promptLength, numResumed, stopTokenIds, maxTokens, rules, ...rest } = parts;
  const tokens = Array.from(
    { length: promptLength + numResumed },
    (_, index) => 5 + (((text * 37 + index * 7) % 91) % 30),
  );
  const minTokens = rules?.minTokens ?? 0;
  return newRequest({
    id,
    promptTokenIds: tokens.slice(0, promptLength),
    resumedTokenIds: tokens.slice(promptLength),
    stop: { stopTokenIds, minTokens, maxTokens: maxTokens + numResumed },
    ...rest,
    rules: rules && { ...rules, endTokenIds: stopTokenIds },
  });
}

describe.each(availableBackends)('an engine on %s that guesses tokens ahead', (device) => {
  function start(options: Partial<EngineConfig> = {}): Promise<EngineCore> {
    const memory = { kvCacheMemoryBytes: 4 * 2 ** 20, maxModelLen: 128 };
    return EngineCore.start({
      ...ENGINE_DEFAULTS,
      modelPath: folder,
      device,
      ...memory,
      speculative: EAGER,
      ...options,
    });
  }

  it('gives any mix of requests what they get without, whatever comes, leaves and has to give way', async () => {
    const alone = await start({ speculative: null, enablePrefixCaching: false });
    const bytesOfBlock = Math.ceil((4 * 2 ** 20) / alone.stats.numBlocks);
    const totals = { accepted: 0, rejected: 0, preemptions: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            parts: anyRequest,
            from: fc.nat(8),
            until: fc.option(fc.nat(30), { freq: 8 }),
          }),
          { minLength: 1, maxLength: 6 },
        ),
        fc.record({
          maxNumBatchedTokens: fc.integer({ min: 8, max: 80 }),
          maxNumSeqs: fc.integer({ min: 2, max: 5 }),
          numThreads: fc.integer({ min: 1, max: 2 }),
        }),
        anyMethod,
        fc.integer({ min: 8, max: 11 }),
        async (shapes, options, method, numBlocks) => {
          const kvCacheMemoryBytes = numBlocks * bytesOfBlock;
          const core = await start({ ...options, speculative: method(), kvCacheMemoryBytes });
          const requests = shapes.map(({ parts }, id) => requestOf(id, parts));
          const answers = run(core, requests, shapes);
          const { speculation, preemptions, freeBlocks } = core.stats;
          totals.accepted += speculation!.acceptedTokens;
          totals.rejected += speculation!.draftTokens - speculation!.acceptedTokens;
          totals.preemptions += preemptions;
          expect(freeBlocks).toBe(core.stats.numBlocks);
          core.close();
          for (const [index, one] of requests.entries()) {
            const given = answers[index]!;
            const [expected] = run(alone, [one]);
            const isAborted = shapes[index]!.until !== null;
            expect(given).toEqual(isAborted ? expected!.slice(0, given.length) : expected);
          }
        },
      ),
      { numRuns: device === 'reference' ? 3 : 24, seed: 3 },
    );
    alone.close();
    expect(totals.accepted).toBeGreaterThan(20);
    expect(totals.rejected).toBeGreaterThan(20);
    if (device !== 'reference') expect(totals.preemptions).toBeGreaterThan(0);
  });

  it('computes an answer that repeats itself in fewer steps, and cuts it at its length and at a stop token', async () => {
    const core = await start();
    const plain = await start({ speculative: null });
    const one = { promptTokenIds: [1, 2, 3, 4, 5], sampling: { numLogprobs: 2 } };
    const [whole] = run(plain, [newRequest({ ...one, stop: { maxTokens: 60 } })]);
    const tokens = tokensOf(whole!);
    // With each length another token of a draft is the last one.
    for (let maxTokens = 20; maxTokens < 40; maxTokens += 1) {
      const [cut] = run(core, [newRequest({ ...one, id: maxTokens, stop: { maxTokens } })]);
      expect(tokensOf(cut!)).toEqual(tokens.slice(0, maxTokens));
      expect(cut!.at(-1)!.finish).toEqual({ reason: 'length', stopTokenId: null });
    }
    for (let minTokens = 20; minTokens < 40; minTokens += 1) {
      const request = newRequest({ ...one, stop: { stopTokenIds: tokens, minTokens, maxTokens: 60 } });
      const [stopped] = run(core, [request]);
      expect(stopped).toEqual(run(plain, [request])[0]);
      expect(tokensOf(stopped!)).toHaveLength(minTokens);
    }
    const { drafts, draftTokens, acceptedTokens, acceptedPerPosition } = core.stats.speculation!;
    expect(acceptedTokens).toBeGreaterThan(0.6 * draftTokens);
    expect(draftTokens).toBeLessThanOrEqual(5 * drafts);
    expect(acceptedPerPosition.reduce((sum, count) => sum + count)).toBe(acceptedTokens);
    // Every accepted token but those after the end is one that no step was needed for.
    expect(core.stats.generationTokens).toBeGreaterThan(2 * drafts);
    core.close();
    plain.close();
  });

  it('leaves nothing in the prefix cache that a rejected token was part of', async () => {
    const core = await start();
    const fresh = await start({ speculative: null, enablePrefixCaching: false });
    let promptTokenIds = [1, 2, 3, 4, 5];
    let numCachedTokens = 0;
    // Each turn goes on with the answer to the one before: blocks of answers are found again.
    for (let id = 0; id < 6; id += 1) {
      const sampling = { temperature: id % 2, seed: id, numLogprobs: 0 };
      const request = newRequest({ id, promptTokenIds, sampling, stop: { maxTokens: 15 } });
      core.scheduler.add(request);
      const outputs: TokenOutput[] = [];
      while (core.hasUnfinished) outputs.push(...(core.step() ?? []).flatMap((finished) => finished.outputs));
      numCachedTokens += outputs[0]!.numCachedTokens;
      const answer = outputs.flatMap(({ tokenIds }) => tokenIds);
      expect(answer).toEqual(tokensOf(run(fresh, [request])[0]!));
      promptTokenIds = [...promptTokenIds, ...answer, 7];
    }
    const { draftTokens, acceptedTokens } = core.stats.speculation!;
    expect(acceptedTokens).toBeGreaterThan(0);
    expect(acceptedTokens).toBeLessThan(draftTokens);
    expect(numCachedTokens).toBeGreaterThan(200);
    core.close();
    fresh.close();
  });

  const parts = [
    { tensorParallelSize: 1, pipelineParallelSize: 1 },
    { tensorParallelSize: 2, pipelineParallelSize: 1 },
    { tensorParallelSize: 1, pipelineParallelSize: 2 },
    { tensorParallelSize: 2, pipelineParallelSize: 2 },
  ] as const;

  it.each(parts.filter(({ tensorParallelSize: size }) => size === 1 || device === 'cpu'))(
    'accepts all that a draft model guesses which is the model itself, and tokens of one that is like it: %j',
    async (layout) => {
      const plain = await start({ speculative: null });
      const request = newRequest({ promptTokenIds: [1, 2, 3, 4, 5], stop: { maxTokens: 100 } });
      const others = Array.from({ length: 3 }, (_, id) => ({
        ...request,
        id: id + 10,
        promptTokenIds: [id + 7],
      }));
      const expected = run(plain, [request, ...others]);
      plain.close();
      const statsWith = async (model: string) => {
        const speculative = { method: 'draft_model', numSpeculativeTokens: 4, model } as const;
        const core = await start({ speculative, numThreads: 4, ...layout });
        expect(run(core, [request, ...others])).toEqual(expected);
        core.close();
        const lone = await start({ speculative, numThreads: 4, ...layout });
        expect(run(lone, [request])).toEqual(expected.slice(0, 1));
        const { speculation } = lone.stats;
        lone.close();
        return speculation!;
      };
      const same = await statsWith(folder);
      expect(same.draftTokens).toBeGreaterThan(70);
      expect(same.acceptedTokens).toBe(same.draftTokens);
      const alike = await statsWith(draftFolder);
      expect(alike.acceptedTokens).toBeGreaterThan(0);
      // It reads no more than 70 tokens.
      expect(alike.draftTokens).toBeLessThan(70 * 4);
    },
  );

  it('refuses a draft model of another vocabulary, and one that is not there, before it loads a weight', async () => {
    const other = join(folders, 'other');
    writeTinyModel(other, { config: { vocab_size: 300 }, tokenizer: false });
    const starting = (model: string) =>
      start({ speculative: { method: 'draft_model', numSpeculativeTokens: 4, model } });
    await expect(starting(other)).rejects.toThrow(
      /has a vocabulary of 300 tokens.*a draft model needs the same/,
    );
    await expect(starting(join(folders, 'none'))).rejects.toThrow(ModelLoadError);
  });
});
