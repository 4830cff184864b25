// The law that everything else stands on: what a request gets back, tokens and log-probabilities to the last bit,
// depends on the request alone.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CpuIsa } from '../../src/config/cpu-isa.ts';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { probeNative } from '../../src/native/native.ts';
import { groupBadWords } from '../../src/sampling/logit-rules.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';

/** Every way in which this machine can compute: the reference, and the native kernels of each instruction set. */
type Path = 'reference' | CpuIsa;
const PATHS: readonly Path[] = ['reference', ...(probeNative()?.instructionSets() ?? [])];
/** What is scheduled does not depend on the kernels: one path meets every kind of step, the others what is theirs. */
const BEST = PATHS.at(-1)!;
const RUNS = new Map<Path, number>([
  [BEST, 40],
  ['reference', 4],
]);
const FORMATS = [
  { name: 'float32', dtype: 'float32', quantization: null, kvCacheDtype: 'auto' },
  { name: 'bfloat16', dtype: 'bfloat16', quantization: null, kvCacheDtype: 'auto' },
  { name: 'int8', dtype: 'auto', quantization: 'int8', kvCacheDtype: 'auto' },
  { name: 'bfloat16 over keys in int8', dtype: 'bfloat16', quantization: null, kvCacheDtype: 'int8' },
] as const;
const VOCAB = 256;
const MAX_TOKENS = 12;

/** Whose experts, sinks and latents are ops of their own. */
const MIXTURES = ['Qwen2MoeForCausalLM', 'GptOssForCausalLM', 'DeepseekV3ForCausalLM'] as const;

let folder: string;
const mixtureFolder = (architecture: string) => join(folder, architecture);
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-invariance-'));
  writeTinyModel(folder, { seed: 1 });
  for (const architecture of MIXTURES) {
    writeTinyModel(mixtureFolder(architecture), { architecture, seed: 2, config: { sliding_window: 24 } });
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

async function start(path: Path, options: Partial<EngineConfig>): Promise<EngineCore> {
  const config: EngineConfig = {
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    kvCacheMemoryBytes: 8 * 2 ** 20,
    ...options,
    ...(path === 'reference' ? { device: 'reference' } : { device: 'cpu', cpuIsa: path }),
  };
  return EngineCore.start(config);
}

/** Over all runs of a test, so that it can tell that there were hits. */
let numCachedTokens = 0;
const countCached = (numTokens: number): void => {
  numCachedTokens += numTokens;
};

/** The prompt is one of a few long texts, cut: prompts often begin alike. */
const requestParts = fc.record({
  text: fc.nat(2),
  promptLength: fc.integer({ min: 1, max: 70 }),
  temperature: fc.constantFrom<number>(0, 0.7, 1.3),
  topK: fc.constantFrom(0, 40),
  topP: fc.constantFrom<number>(1, 0.9),
  minP: fc.constantFrom(0, 0.02),
  seed: fc.nat(3),
  sample: fc.nat(2),
  numLogprobs: fc.constantFrom(null, 0, 5),
  numPromptLogprobs: fc.constantFrom(null, null, 3),
  rules: fc.option(
    fc.record({
      repetitionPenalty: fc.constantFrom(1, 1.3),
      frequencyPenalty: fc.constantFrom(0, 0.5),
      presencePenalty: fc.constantFrom(0, -0.5),
      biases: fc.constantFrom([], [[7, 3] as const, [9, -50] as const]),
      allowedTokenIds: fc.constantFrom(
        null,
        Int32Array.from({ length: 50 }, (_, i) => 5 * i),
      ),
      minTokens: fc.nat(4),
      endTokenIds: fc.constant([2, 3]),
      badWords: fc.constantFrom(groupBadWords([]), groupBadWords([[4], [10, 20]])),
    }),
  ),
});

type RequestParts = typeof requestParts extends fc.Arbitrary<infer T> ? T : never;

function requestOf(id: number, parts: RequestParts): NewRequest {
  const { text, promptLength, numPromptLogprobs, rules, ...sampling } = parts;
  return newRequest({
    id,
    promptTokenIds: Array.from({ length: promptLength }, (_, index) => (text * 131 + index * 17) % VOCAB),
    sampling,
    numPromptLogprobs,
    rules,
    stop: { stopTokenIds: [2, 3], minTokens: rules?.minTokens ?? 0, maxTokens: MAX_TOKENS },
  });
}

const PLAIN: RequestParts = {
  text: 0,
  promptLength: 45,
  temperature: 1,
  topK: 0,
  topP: 0.95,
  minP: 0,
  seed: 5,
  sample: 0,
  numLogprobs: 5,
  numPromptLogprobs: 3,
  rules: null,
};

describe.each(PATHS)('on %s', (path) => {
  it.each(FORMATS)(
    'a request in $name gets the same alone, among 16 others and in chunks of 7',
    async ({ name: _, ...format }) => {
      const alone = await start(path, { ...format, enablePrefixCaching: false });
      const chunked = await start(path, { ...format, maxNumBatchedTokens: 7, maxNumSeqs: 4 });
      const crowded = await start(path, format);
      for (const temperature of [0, 1]) {
        const one = requestOf(99, { ...PLAIN, temperature });
        const others = Array.from({ length: 16 }, (_, id) =>
          requestOf(id, { ...PLAIN, seed: id, promptLength: 3 + 7 * id, numPromptLogprobs: null }),
        );
        const expected = generate(alone, [one]).get(99)!;
        expect(expected.tokenIds).toHaveLength(MAX_TOKENS);
        expect(expected.promptNumbers).toHaveLength(44 * (3 + 2 * 3));
        expect(generate(crowded, [...others.slice(0, 9), one, ...others.slice(9)]).get(99)).toEqual(expected);
        expect(generate(chunked, [one]).get(99)).toEqual(expected);
      }
      for (const core of [alone, chunked, crowded]) core.close();
    },
  );

  it.each(MIXTURES)(
    'a request to a tiny %s gets the same alone, among 16 others, in chunks of 7 and from the cache',
    async (architecture) => {
      const options = {
        modelPath: mixtureFolder(architecture),
        dtype: 'bfloat16',
        maxModelLen: 512,
      } as const;
      const alone = await start(path, { ...options, enablePrefixCaching: false });
      const chunked = await start(path, { ...options, maxNumBatchedTokens: 7, maxNumSeqs: 4 });
      const crowded = await start(path, options);
      const one = requestOf(99, PLAIN);
      const others = Array.from({ length: 16 }, (_, id) =>
        requestOf(id, { ...PLAIN, seed: id, promptLength: 3 + 7 * id, numPromptLogprobs: null }),
      );
      const expected = generate(alone, [one]).get(99)!;
      expect(generate(crowded, [...others.slice(0, 9), one, ...others.slice(9)]).get(99)).toEqual(expected);
      expect(generate(chunked, [one]).get(99)).toEqual(expected);
      const cached = { ...one, id: 100, numPromptLogprobs: null };
      const hits = numCachedTokens;
      const again = generate(crowded, [cached], [], countCached).get(100)!;
      expect(again.tokenIds).toEqual(expected.tokenIds);
      expect(again.numbers).toEqual(expected.numbers);
      expect(numCachedTokens).toBeGreaterThan(hits);
      for (const core of [alone, chunked, crowded]) core.close();
    },
  );

  it('a prompt that the cache already holds gets the same answer, and is not computed again', async () => {
    const core = await start(path, {});
    const one = requestOf(1, { ...PLAIN, numPromptLogprobs: null });
    const first = generate(core, [one]).get(1);
    core.scheduler.add({ ...one, id: 2 });
    expect(core.step()).toEqual([]);
    expect(core.step()).toMatchObject([{ outputs: [{ numCachedTokens: 32 }] }]);
    core.scheduler.abort(2);
    expect(generate(core, [{ ...one, id: 3 }]).get(3)).toEqual(first);
    core.close();
  });

  it('any mix of arrivals, chunks, seats, prefixes, samples and rules changes nothing for any request', async () => {
    const alone = await start(path, { enablePrefixCaching: false });
    const bytesOfBlock = Math.ceil((8 * 2 ** 20) / alone.stats.numBlocks);
    let numPreemptions = 0;
    numCachedTokens = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ parts: requestParts, arrival: fc.nat(6) }), { minLength: 2, maxLength: 9 }),
        fc.record({
          maxNumBatchedTokens: fc.integer({ min: 8, max: 80 }),
          maxNumSeqs: fc.integer({ min: 1, max: 8 }),
          maxModelLen: fc.constant(96),
          numThreads: fc.integer({ min: 1, max: 2 }),
        }),
        fc.integer({ min: 6, max: 14 }),
        async (shapes, options, numBlocks) => {
          const core = await start(path, { ...options, kvCacheMemoryBytes: numBlocks * bytesOfBlock });
          const requests = shapes.map(({ parts }, id) => requestOf(id, parts));
          const together = generate(
            core,
            requests,
            shapes.map(({ arrival }) => arrival),
            countCached,
          );
          numPreemptions += core.stats.preemptions;
          expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
          core.close();
          for (const one of requests) {
            expect(together.get(one.id)).toEqual(generate(alone, [one]).get(one.id));
          }
        },
      ),
      { numRuns: RUNS.get(path) ?? 10, seed: 11 },
    );
    alone.close();
    expect(numCachedTokens).toBeGreaterThan(0);
    if (path === BEST) expect(numPreemptions).toBeGreaterThan(0);
  });
});
