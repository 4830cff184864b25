// A model whose layers are in pipeline stages: what a request gets is what it gets of the model in one piece, to the last bit.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ConfigError } from '../../src/errors.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';
import type { ModelConfig } from '../../src/models/model-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { needsNative } from '../helpers/needs.ts';
import { newRequest } from '../helpers/new-request.ts';
import { untilPacked } from '../helpers/packed-files.ts';
import { architectureGoldens } from '../models/golden-cases.ts';

const DEVICE = availableBackends.find((backend) => backend === 'cpu') ?? 'reference';
const NGRAM = { method: 'ngram', numSpeculativeTokens: 4, promptLookupMin: 1, promptLookupMax: 3 } as const;

const goldens = architectureGoldens().map((golden) => ({
  ...golden,
  config: readModelConfig(openModelSource(golden.folder)),
}));

/** Whether no layer needs what only the first stage, or an earlier layer, has. */
function canBeCut({ sharedKeys, layerInputs }: ModelConfig): boolean {
  return sharedKeys === null && layerInputs === null;
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-stages-'));
  writeTinyModel(join(folder, 'model'), { seed: 1 });
  writeTinyModel(join(folder, 'windows'), {
    architecture: 'MistralForCausalLM',
    seed: 2,
    config: {
      num_hidden_layers: 7,
      sliding_window: 20,
      layer_types: Array.from({ length: 7 }, (_, i) =>
        i % 3 === 2 ? 'full_attention' : 'sliding_attention',
      ),
    },
  });
  writeTinyAdapter(join(folder, 'adapter'), { seed: 3, rank: 4 });
});
afterAll(() => rmSync(folder, { recursive: true }));

function start(numStages: number, options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  return EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: join(folder, 'model'),
    device: DEVICE,
    numThreads: DEVICE === 'cpu' ? numStages : null,
    pipelineParallelSize: numStages,
    kvCacheMemoryBytes: 8 * 2 ** 20,
    ...options,
  });
}

const anyRequest = fc.record({
  text: fc.nat(2),
  promptLength: fc.integer({ min: 1, max: 70 }),
  arrival: fc.nat(9),
  temperature: fc.constantFrom(0, 0.8),
  numLogprobs: fc.constantFrom(null, null, 2),
  numPromptLogprobs: fc.constantFrom(null, null, null, 2),
  hasRules: fc.boolean(),
  hasAdapter: fc.boolean(),
});
type Shape = typeof anyRequest extends fc.Arbitrary<infer T> ? T : never;

/** Prompts often begin alike, and answers that end early make room for others. */
function requestOf(core: EngineCore, id: number, shape: Shape): NewRequest {
  const { text, promptLength, temperature, numLogprobs, numPromptLogprobs, hasRules, hasAdapter } = shape;
  const adapter = hasAdapter ? core.executor.adapters[0] : undefined;
  return newRequest({
    id,
    promptTokenIds: Array.from({ length: promptLength }, (_, index) => (text * 131 + index * 17) % 256),
    sampling: { temperature, seed: id, numLogprobs },
    numPromptLogprobs,
    rules: hasRules ? { repetitionPenalty: 1.2, biases: [[7, 2]] } : null,
    stop: { stopTokenIds: [2, 3], maxTokens: 10 },
    ...(adapter && { adapterId: 0, extraKeys: adapterKeys(adapter.digest) }),
  });
}

const lora = () => ({
  modules: [{ name: 'one', path: join(folder, 'adapter'), baseModelName: null }],
  maxLoras: 2,
  maxLoraRank: 16,
});

describe('a model in stages', () => {
  it.each(goldens.filter(({ config }) => !canBeCut(config)))(
    'is refused where a layer needs what an earlier stage has: $name',
    async ({ folder: modelPath }) => {
      await expect(start(2, { modelPath })).rejects.toThrow(
        '--pipeline-parallel-size 2 is not available for this model, whose layers see keys of earlier ones',
      );
    },
  );

  it.each(goldens.filter(({ config }) => canBeCut(config)))(
    'answers as in one piece: $name',
    async ({ folder: modelPath, cases, config }) => {
      const options = { modelPath, kvCacheMemoryBytes: 2 ** 20, maxNumSeqs: 3 };
      const whole = await start(1, options);
      const { numLayers, numKvHeads, layerHeads, recurrent } = config;
      const numStages = Math.min(2, numLayers);
      const inChunks = { ...options, maxNumBatchedTokens: 7 };
      const staged = await start(numStages, inChunks);
      const fewestKvHeads = Math.min(numKvHeads, ...(layerHeads ?? []).map(({ kvHeads }) => kvHeads));
      const isShared = fewestKvHeads > 1 && recurrent?.scan === undefined;
      const numRanks = DEVICE === 'cpu' && isShared ? 2 : 1;
      const shared = { tensorParallelSize: numRanks, numThreads: numRanks * numStages } as const;
      const ofRanks = numRanks === 1 ? staged : await start(numStages, { ...inChunks, ...shared });
      const requests = cases.map(({ ids }, id) =>
        newRequest({ id, promptTokenIds: ids, sampling: { numLogprobs: 2 }, stop: { maxTokens: 5 } }),
      );
      const expected = requests.map((one) => generate(whole, [one]).get(one.id));
      for (const core of [staged, ofRanks]) {
        expect([...generate(core, requests).values()]).toEqual(expected);
      }
      for (const core of new Set([whole, staged, ofRanks])) core.close();
    },
  );

  it.each([2, 3])(
    'of which there are %i, gives any mix of requests what one piece gives each alone',
    async (numStages) => {
      const alone = await start(1, { enablePrefixCaching: false, lora: lora(), numThreads: null });
      const bytesOfBlock = Math.ceil((8 * 2 ** 20) / alone.stats.numBlocks);
      let [numRequests, numPreemptions] = [0, 0];
      const known = new Map<string, Answer>();
      await fc.assert(
        fc.asyncProperty(
          fc.array(anyRequest, { minLength: 4, maxLength: 16 }),
          fc.integer({ min: 8, max: 80 }),
          fc.integer({ min: 1, max: 8 }),
          fc.integer({ min: 6, max: 14 }),
          fc.constantFrom(null, NGRAM),
          async (shapes, maxNumBatchedTokens, maxNumSeqs, numBlocks, speculative) => {
            const core = await start(numStages, {
              maxNumBatchedTokens,
              maxNumSeqs,
              maxModelLen: 96,
              kvCacheMemoryBytes: numBlocks * bytesOfBlock,
              speculative,
              lora: lora(),
            });
            const requests = shapes.map((shape, id) => requestOf(core, id, shape));
            const arrivals = shapes.map(({ arrival }) => arrival);
            const answers = generate(core, requests, arrivals);
            numRequests += requests.length;
            numPreemptions += core.stats.preemptions;
            expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
            core.close();
            for (const one of requests) {
              const key = JSON.stringify(one);
              const expected = known.get(key) ?? generate(alone, [one]).get(one.id)!;
              known.set(key, expected);
              expect(answers.get(one.id)).toEqual(expected);
            }
          },
        ),
        { numRuns: DEVICE === 'cpu' ? 25 : 3, seed: 5 },
      );
      alone.close();
      if (DEVICE === 'cpu') expect(numRequests).toBeGreaterThan(200);
      if (DEVICE === 'cpu') expect(numPreemptions).toBeGreaterThan(0);
    },
  );

  it('of several kinds of layers has as many blocks as its memory holds, and the same answers', async () => {
    const options = { modelPath: join(folder, 'windows'), maxNumBatchedTokens: 16 };
    const whole = await start(1, options);
    const staged = await start(3, options);
    expect(whole.executor.info.windows.length).toBeGreaterThan(1);
    expect(staged.executor.info.windows).toEqual(whole.executor.info.windows);
    const requests = [10, 45, 70].map((length, id) =>
      newRequest({
        id,
        promptTokenIds: Array.from({ length }, (_, index) => (index * 13 + id) % 256),
        sampling: { numLogprobs: 1 },
        stop: { maxTokens: 20 },
      }),
    );
    expect(generate(staged, requests)).toEqual(generate(whole, requests));
    for (const core of [whole, staged]) core.close();
  });

  it('computes a step in each stage at the same time, and frees what an aborted request had', async () => {
    const core = await start(3);
    for (let id = 0; id < 6; id += 1) core.scheduler.add(newRequest({ id, promptTokenIds: [id + 5] }));
    expect(core.step()).toEqual([]);
    expect(core.step()).toEqual([]);
    const third = core.step()!;
    expect(third.map(({ outputs }) => outputs.map(({ requestId }) => requestId))).toEqual([[0, 1]]);
    core.scheduler.abort(2);
    core.scheduler.abort(0);
    expect(core.step()!.flatMap(({ outputs }) => outputs.map(({ requestId }) => requestId))).toEqual([3]);
    for (let id = 0; id < 6; id += 1) core.scheduler.abort(id);
    while (core.step() !== null);
    expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
    core.close();
  });

  it('has as long contexts as one piece where memory decides', async () => {
    const options = { maxModelLen: 'auto', kvCacheMemoryBytes: 2 ** 18 } as const;
    const cores = [await start(1, options), await start(2, options)];
    const [whole, staged] = cores.map(({ executor }) => executor.info);
    expect(staged!.maxModelLen).toBe(whole!.maxModelLen);
    expect(staged!.maxModelLen).toBeLessThan(512);
    const one = newRequest({ id: 1, promptTokenIds: [5, 6], stop: { maxTokens: 50 } });
    const [expected, answer] = cores.map((core) => generate(core, [one]));
    expect(answer).toEqual(expected);
    for (const core of cores) core.close();
  });

  it('does not wait for a stage that cannot be loaded', async () => {
    const options = { maxModelLen: 'auto', hfOverrides: { tie_word_embeddings: false } } as const;
    await expect(start(2, options)).rejects.toThrow('tensor lm_head.weight [320, 64] is missing');
  });

  it('keeps packed weights of each stage for the next start', needsNative, async () => {
    const options = { packedCache: join(folder, 'packed'), dtype: 'bfloat16' } as const;
    const one = newRequest({ id: 1, promptTokenIds: [5, 6], stop: { maxTokens: 4 } });
    const whole = await start(1, options);
    const expected = generate(whole, [one]);
    const first = await start(2, options);
    expect(first.executor.info.isFromPackedCache).toBe(false);
    expect(generate(first, [one])).toEqual(expected);
    await untilPacked(options.packedCache, 3);
    for (const core of [whole, first]) core.close();
    const second = await start(2, options);
    expect(second.executor.info.isFromPackedCache).toBe(true);
    expect(generate(second, [one])).toEqual(expected);
    second.close();
  });

  it('that fails ends the engine with its name, whichever it is', needsNative, async () => {
    const core = await start(3, { maxNumBatchedTokens: 4 });
    core.scheduler.add(newRequest({ id: 1, promptTokenIds: [5, 6] }));
    const step = core.scheduler.schedule();
    // More steps than stages, of which none is read: at some stage there is no room for the next.
    for (let count = 0; count < 500; count += 1) {
      core.executor.forward({ ...step, releasedRequestIds: count === 0 ? [] : [1] }, 0);
      core.executor.sample([null]);
    }
    expect(() => {
      for (let count = 0; count < 500; count += 1) core.executor.read();
    }).toThrow(/^pipeline stage [12] of 3 failed: a pipeline stage is given more steps/);
    core.close();
  });

  it('can be closed while steps are in flight', needsNative, async () => {
    const core = await start(2);
    core.scheduler.add(newRequest({ id: 1 }));
    core.step();
    core.close();
  });
});

describe('what cannot be had with stages', () => {
  const refusals: readonly (readonly [string, Partial<EngineConfig>, RegExp])[] = [
    [
      'more stages than layers',
      { pipelineParallelSize: 8, numThreads: 8 },
      /more than the 3 layers .*at most 3/,
    ],
  ];
  it.each(refusals)('is refused by name: %s', async (_, options, message) => {
    const starting = start(2, options);
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow(message);
  });

  it('is refused by name: fewer threads or cores than stages', needsNative, async () => {
    await expect(start(3, { numThreads: 2 })).rejects.toThrow(
      /--num-threads 2 has no thread for each of 3 ranks or stages/,
    );
    await expect(start(3, { cpuBind: [[0]], numThreads: null })).rejects.toThrow(
      /1 lists for 3 ranks or stages/,
    );
  });
});
