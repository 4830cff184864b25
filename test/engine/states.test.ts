// Models whose layers keep a state of each sequence: what is kept for prompts that begin alike is found, and changes no bit; what such
// a model cannot do is refused before it is loaded.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { ConfigError } from '../../src/errors.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { TINY_VOCAB_SIZE, tinyTokenizer } from '../fixtures/tiny-tokenizer.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { newRequest } from '../helpers/new-request.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const DEVICE = availableBackends.find((backend) => backend === 'cpu') ?? 'reference';
const VOCAB = 96;
const MAX_TOKENS = 6;
const folderOf = (name: string) => fileURLToPath(new URL(`../fixtures/goldens/${name}`, import.meta.url));
const FOLDER = folderOf('qwen3-next');

async function start(options: Partial<EngineConfig> = {}, folder = FOLDER): Promise<EngineCore> {
  const usual = { modelPath: folder, device: DEVICE, kvCacheMemoryBytes: 2 ** 20 } as const;
  return await EngineCore.start({ ...ENGINE_DEFAULTS, ...usual, ...options });
}

const textOf = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * 17 + i * i * seed) % (VOCAB - 3)));

function requestOf(
  id: number,
  promptTokenIds: number[],
  seed = 1,
  stopTokenIds: readonly number[] = [],
): NewRequest {
  return newRequest({
    id,
    promptTokenIds,
    sampling: { temperature: 0.8, seed, numLogprobs: 2 },
    stop: { maxTokens: MAX_TOKENS, stopTokenIds },
  });
}

/** Tokens of the prompt that came from the cache. */
function cachedOf(core: EngineCore, request: NewRequest): number {
  let numCached = 0;
  generate(core, [request], [], (numTokens) => {
    numCached = numTokens;
  });
  return numCached;
}

describe('the states of a prompt', () => {
  it('are found by what goes on from it, at its last whole block', async () => {
    const core = await start();
    const first = textOf(1, 40);
    expect(cachedOf(core, requestOf(1, first))).toBe(0);
    expect(cachedOf(core, requestOf(2, first))).toBe(32);
    const second = [...first, ...textOf(2, 30)];
    expect(cachedOf(core, requestOf(3, second))).toBe(32);
    expect(cachedOf(core, requestOf(4, [...second, 5]))).toBe(64);
    core.close();
  });

  it('are kept where a second prompt begins like the first, so that a third one finds them', async () => {
    const core = await start();
    const common = textOf(3, 53);
    const prompts = [4, 5, 6].map((seed) => [...common, ...textOf(seed, 20)]);
    expect(prompts.map((prompt, id) => cachedOf(core, requestOf(id, prompt)))).toEqual([0, 0, 48]);
    core.close();
  });

  it('are found by prompts that come together and begin alike, as samples of one do', async () => {
    const core = await start();
    const prompt = textOf(1, 40);
    const numCached = new Map<number, number>();
    const requests = [1, 2, 3].map((id) => requestOf(id, prompt, id));
    for (const one of requests) core.scheduler.add(one);
    while (core.hasUnfinished) {
      for (const { requestId, numCachedTokens } of (core.step() ?? []).flatMap(({ outputs }) => outputs))
        numCached.set(requestId, numCachedTokens);
    }
    expect([...numCached].sort()).toEqual([
      [1, 0],
      [2, 32],
      [3, 32],
    ]);
    core.close();
  });

  it('are forgotten with the blocks', async () => {
    const core = await start();
    const prompt = textOf(1, 40);
    cachedOf(core, requestOf(1, prompt));
    expect(core.scheduler.resetPrefixCache()).toBe(true);
    expect(cachedOf(core, requestOf(2, prompt))).toBe(0);
    core.close();
  });

  it('are not kept where prompts are to share nothing', async () => {
    const core = await start({ enablePrefixCaching: false, maxNumSeqs: 8 });
    expect(core.executor.info).toMatchObject({ numSnapshots: 0, maxNumSeqs: 8 });
    for (const id of [1, 2]) expect(cachedOf(core, requestOf(id, textOf(1, 40)))).toBe(0);
    core.close();
  });
});

const shapes = fc.array(
  fc.record({
    text: fc.nat(1),
    length: fc.integer({ min: 1, max: 90 }),
    tail: fc.nat(2),
    arrival: fc.nat(12),
    seed: fc.nat(2),
    /** Ends when it has sampled one of them: what is in flight then has computed it for nothing. */
    stopTokenIds: fc.oneof(fc.constant([]), fc.array(fc.nat(VOCAB - 1), { minLength: 20, maxLength: 20 })),
    /** Steps after which its client leaves. */
    patience: fc.option(fc.integer({ min: 1, max: 20 }), { freq: 5 }),
  }),
  { minLength: 2, maxLength: 9 },
);

/** Prompts that begin alike, as far as 90 tokens, and then differ. */
const promptOf = ({ text, length, tail }: { text: number; length: number; tail: number }) => [
  ...textOf(text, length),
  ...textOf(tail + 7, 3 * tail),
];

/** Bytes of a cache that is tight: of few states, and of few blocks. */
const TIGHT = {
  'qwen3-next': fc.integer({ min: 2 ** 17, max: 2 ** 20 }),
  lfm2: fc.integer({ min: 8, max: 16 }).map((numBlocks) => 2 * numBlocks * 1024),
};

it.each(['qwen3-next', 'lfm2'] as const)(
  'with %s any mix of arrivals, chunks, seats and kept states changes nothing for any request',
  async (name) => {
    const folder = folderOf(name);
    const alone = await start({ enablePrefixCaching: false }, folder);
    const seen = { cachedTokens: 0, preemptions: 0, fewerSeats: 0 };
    await fc.assert(
      fc.asyncProperty(
        shapes,
        fc.record({
          maxNumBatchedTokens: fc.integer({ min: 8, max: 80 }),
          maxNumSeqs: fc.integer({ min: 1, max: 8 }),
          numThreads: fc.integer({ min: 1, max: 2 }),
          maxModelLen: fc.constant(112),
          kvCacheMemoryBytes: TIGHT[name],
        }),
        async (parts, options) => {
          const core = await start(options, folder);
          if (core.executor.info.maxNumSeqs < options.maxNumSeqs) seen.fewerSeats += 1;
          const requests = parts.map((one, id) => requestOf(id, promptOf(one), one.seed, one.stopTokenIds));
          const arrivals = parts.map(({ arrival }) => arrival);
          const departures = parts.map(({ arrival, patience }) => patience && arrival + patience);
          const countCached = (numTokens: number) => {
            seen.cachedTokens += numTokens;
          };
          const together = generate(core, requests, arrivals, countCached, departures);
          seen.preemptions += core.stats.preemptions;
          expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
          core.close();
          for (const one of requests) {
            const whole = generate(alone, [one]).get(one.id)!;
            const answer = together.get(one.id)!;
            if (departures[one.id] === null) expect(answer).toEqual(whole);
            else expect(answer.tokenIds).toEqual(whole.tokenIds.slice(0, answer.tokenIds.length));
          }
        },
      ),
      { numRuns: 40, seed: 3 },
    );
    alone.close();
    expect(seen.cachedTokens).toBeGreaterThan(0);
    expect(name === 'lfm2' ? seen.preemptions : seen.fewerSeats).toBeGreaterThan(0);
  },
);

it('no more sequences are let in than have states', async () => {
  const folder = newFolder();
  mkdirSync(folder);
  const config = z.looseObject({}).parse(JSON.parse(readFileSync(join(FOLDER, 'config.json'), 'utf8')));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, vocab_size: TINY_VOCAB_SIZE }));
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tinyTokenizer()));
  const warnings: string[] = [];
  const tight = {
    loadFormat: 'dummy',
    device: DEVICE,
    kvCacheMemoryBytes: 2 ** 18,
    maxQueuedRequests: 0,
  } as const;
  const engine = await InferenceEngine.start(
    { ...ENGINE_DEFAULTS, ...tight, modelPath: folder },
    { onWarning: (message) => warnings.push(message) },
  );
  const { maxNumSeqs } = engine.info;
  expect(maxNumSeqs).toBeLessThan(ENGINE_DEFAULTS.maxNumSeqs);
  expect(engine.info.maxConcurrency).toBeLessThanOrEqual(maxNumSeqs);
  expect(warnings).toContainEqual(
    expect.stringMatching(new RegExp(`^${maxNumSeqs} sequences run at the same time`)),
  );
  expect(() => {
    for (let i = 0; i <= maxNumSeqs; i++) engine.admission.open(`caller ${i}`, 1);
  }).toThrow(`${maxNumSeqs} may run`);
  await engine.close();
});

it('layers in stages have the bits of one piece', async () => {
  const requests = [1, 2, 3].map((id) => requestOf(id, textOf(id, 20 * id)));
  const made = { loadFormat: 'dummy', hfOverrides: { num_hidden_layers: 8 } } as const;
  const [whole, staged] = [await start(made), await start({ ...made, pipelineParallelSize: 2 })];
  const expected = [...generate(whole, requests)];
  expect([...generate(staged, requests)]).toEqual(expected);
  expect(staged.stats.prefixCacheHits).toBe(0);
  // From the cache, too.
  expect([...generate(staged, requests)]).toEqual(expected);
  expect(staged.stats.prefixCacheHits).toBeGreaterThan(0);
  for (const core of [whole, staged]) core.close();
});

it.each([
  [
    '--speculative-config',
    { speculative: { method: 'ngram', numSpeculativeTokens: 2, promptLookupMin: 1, promptLookupMax: 2 } },
  ],
  [
    '--pipeline-parallel-size 4 has a stage of the layers 0 to 0',
    { pipelineParallelSize: 4, kvTransfer: kvTransferConfig({}) },
  ],
] as const)('%s is refused before it is loaded', async (option, config) => {
  const started = start(config as Partial<EngineConfig>);
  await expect(started).rejects.toThrow(ConfigError);
  await expect(started).rejects.toThrow(new RegExp(`^${option}`));
});
