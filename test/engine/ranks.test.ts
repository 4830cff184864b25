// A model cut over ranks, each in a thread of its own: the answers of one, whatever the requests ask, and one end for all of them.

import { rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EngineConfig, TensorParallelSize } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ModelLoadError } from '../../src/errors.ts';
import type { LoadedAdapter } from '../../src/models/adapters/load-adapter.ts';
import { rankThreads } from '../../src/ops/rank-threads.ts';
import { openRankGroup } from '../../src/ops/select.ts';
import { RankLink } from '../../src/runner/ranks/rank-link.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { readTopology } from '../../src/util/cpu-topology.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { needsNative } from '../helpers/needs.ts';
import { newRequest } from '../helpers/new-request.ts';
import { packedFiles, untilPacked } from '../helpers/packed-files.ts';
import { startedThreads } from '../helpers/started-threads.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';
import { goldenFolder } from '../models/golden-cases.ts';
import { endRank, MOMENTS } from './rank-end.ts';

const newFolder = temporaryFolders();
const folder = newFolder();
beforeAll(() =>
  writeTinyModel(folder, {
    seed: 3,
    config: {
      hidden_size: 128,
      intermediate_size: 256,
      num_attention_heads: 8,
      num_key_value_heads: 4,
      head_dim: 32,
    },
  }),
);

const threads = startedThreads();
const open: EngineCore[] = [];
afterEach(() => {
  for (const core of open.splice(0)) core.close();
});

const KV_BYTES = 1_400_000;

const failures: Error[] = [];
beforeEach(() => void failures.splice(0));

async function start(
  tensorParallelSize: TensorParallelSize,
  options: Partial<EngineConfig> = {},
): Promise<EngineCore> {
  const config: EngineConfig = {
    ...ENGINE_DEFAULTS,
    modelPath: folder,
    device: 'cpu',
    numThreads: 4,
    kvCacheMemoryBytes: KV_BYTES,
    maxModelLen: 112,
    maxNumBatchedTokens: 128,
    maxNumSeqs: 64,
    tensorParallelSize,
    ...options,
  };
  const core = await EngineCore.start(config, { onFailure: (error) => failures.push(error) });
  open.push(core);
  return core;
}

/** Prompts that are computed in chunks and share beginnings, rules that look back, and log-probabilities. */
const REQUESTS: readonly NewRequest[] = Array.from({ length: 40 }, (_, id) =>
  newRequest({
    id,
    promptTokenIds: Array.from(
      { length: 5 + ((13 * id) % 60) },
      (_, index) => (index * (7 + (id % 3)) + (id % 5)) % 251,
    ),
    sampling: { temperature: (id % 3) / 2, seed: id, numLogprobs: id % 4 === 0 ? 2 : null },
    rules: id % 2 === 0 ? { repetitionPenalty: 1.7, biases: [[3, 2]] } : null,
    numPromptLogprobs: id % 8 === 3 ? 1 : null,
    stop: { maxTokens: 1 + 2 * (id % 24), stopTokenIds: [3 * id] },
  }),
);
const ARRIVALS = REQUESTS.map((_, index) => index >> 3);

const DRAFTS = { method: 'ngram', numSpeculativeTokens: 3, promptLookupMax: 3, promptLookupMin: 1 } as const;

/** One rank, several, and several in stages. */
const LAYOUTS = [
  { degree: 1, numStages: 1 },
  { degree: 2, numStages: 1 },
  { degree: 4, numStages: 1 },
  { degree: 2, numStages: 3 },
] as const;

describe('a model cut over ranks', needsNative, () => {
  it.each([1, 2])('has the bits of one rank where layers scan by %i groups of heads', async (groups) => {
    const hfOverrides = { mamba_n_groups: groups };
    const model = {
      modelPath: goldenFolder('granite-hybrid-mamba'),
      loadFormat: 'dummy',
      hfOverrides,
    } as const;
    const requests = REQUESTS.slice(0, 8).map((one) => ({
      ...one,
      promptTokenIds: one.promptTokenIds.map((id) => id % 90),
    }));
    const [expected, actual] = await Promise.all(
      ([1, 2] as const).map(async (degree) => generate(await start(degree, model), requests)),
    );
    expect(actual).toEqual(expected);
  });

  it('gives the answers of one rank, and goes on after requests that were withdrawn', async () => {
    let expected: Map<number, Answer> | null = null;
    for (const { degree, numStages } of LAYOUTS) {
      const numThreads = 4 * numStages;
      const parts = { pipelineParallelSize: numStages, numThreads };
      const core = await start(degree, { speculative: DRAFTS, ...parts });
      core.scheduler.add({ ...REQUESTS[31]!, id: 99 });
      core.step();
      core.step();
      core.scheduler.abort(99);
      const answers = generate(core, REQUESTS, ARRIVALS);
      expected ??= answers;
      expect(answers).toEqual(expected);
      expect(core.stats.preemptions).toBeGreaterThan(0);
      expect(core.stats.speculation?.acceptedTokens).toBeGreaterThan(0);
      expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
      const { ranks, weightBytes, compute } = core.executor.info;
      expect(ranks).toHaveLength(degree * numStages);
      expect(weightBytes).toBe(ranks.reduce((sum, rank) => sum + rank.weightBytes, 0));
      // Keys and values are shared out: --kv-cache-memory-bytes is for all ranks.
      const kvBytes = ranks.reduce((sum, rank) => sum + rank.kvCacheBytes, 0);
      expect(kvBytes).toBeLessThanOrEqual(KV_BYTES);
      expect(kvBytes).toBeGreaterThan(0.9 * KV_BYTES);
      const inStages = numStages === 1 ? '' : ` in ${numStages} pipeline stages`;
      const about = new RegExp(`^${degree} ranks${inStages}: .*, ${4 / degree} threads?$`);
      if (degree > 1) expect(compute).toMatch(about);
    }
  });

  it('binds the ranks of a stage to processors beside each other', async () => {
    const parts = { pipelineParallelSize: 2, cpuBind: 'auto' } as const;
    const { ranks } = (await start(2, parts)).executor.info;
    const machine = { ...readTopology(), granted: os.availableParallelism() };
    const places = rankThreads({ numThreads: 4, cpuBind: 'auto' }, 4, machine);
    expect(ranks.map(({ compute }) => compute.match(/processor (\d+)$/)?.[1])).toEqual(
      places.map(({ cpus }) => `${cpus![0]}`),
    );
  });

  it.each([1, 2])(
    'has the longest context that all ranks have room for, in stages: %i',
    async (numStages) => {
      const parts = { pipelineParallelSize: numStages };
      const { info } = (await start(2, { maxModelLen: 'auto', kvCacheMemoryBytes: 600_000, ...parts }))
        .executor;
      expect(info.maxModelLen).toBe(info.numBlocks * 16);
      expect(info.maxModelLen).toBeLessThan(512);
    },
  );
});

it('has packed weights of an earlier start in all ranks and stages, or packs them', needsNative, async () => {
  const options = { packedCache: newFolder(), pipelineParallelSize: 2 };
  const { packedCache } = options;
  const first = await start(2, options);
  await untilPacked(packedCache, 4);
  const expected = generate(first, [REQUESTS[7]!]);
  const second = await start(2, options);
  expect(second.executor.info.isFromPackedCache).toBe(true);
  expect(generate(second, [REQUESTS[7]!])).toEqual(expected);
  rmSync(join(packedCache, packedFiles(packedCache)[0]!));
  expect((await start(2, options)).executor.info.isFromPackedCache).toBe(false);
});

describe('an adapter of a model that is cut over ranks', needsNative, () => {
  const lora = { modules: [], maxLoras: 4, maxLoraRank: 8 };
  const path = newFolder();
  beforeAll(() =>
    writeTinyAdapter(path, {
      projections: {
        'self_attn.q_proj': [256, 128],
        'self_attn.o_proj': [128, 256],
        'mlp.up_proj': [256, 128],
        'mlp.down_proj': [128, 256],
      },
    }),
  );

  /** Loads it while other requests run. */
  async function load(core: EngineCore, folder: string): Promise<LoadedAdapter> {
    const loaded = new Promise<LoadedAdapter>((onLoaded, onRefused) =>
      core.addAdapter({ id: 7, path: folder, maxRank: 8 }, { onLoaded, onRefused }),
    );
    while (core.tendAdapters()) core.step();
    while (core.hasUnfinished) core.step();
    return await loaded;
  }

  const asked = { ...REQUESTS[20]!, adapterId: 7 };

  it('is loaded into all of them between steps, and gives the answers of one rank', async () => {
    const outcomes = [];
    for (const { degree, numStages } of [LAYOUTS[0], LAYOUTS[1], LAYOUTS[3]]) {
      const core = await start(degree, { lora, pipelineParallelSize: numStages, numThreads: 6 });
      await expect(load(core, newFolder())).rejects.toThrow(ModelLoadError);
      core.scheduler.add(REQUESTS[31]!);
      const { digest } = await load(core, path);
      const answer = generate(core, [asked, REQUESTS[5]!]).get(asked.id);
      core.retireAdapter(7);
      core.tendAdapters();
      outcomes.push({ digest, answer, again: await load(core, path) });
    }
    for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0]);
    await expect(load(open.at(-1)!, newFolder())).rejects.toThrow(ModelLoadError);
  });
});

describe('a rank that ends', needsNative, () => {
  /** The thread of rank 1, once it is there. */
  const follower = (): Worker => threads[0]!;

  it('ends the start', async () => {
    const starting = start(4);
    starting.catch(() => {});
    await until(() => threads.length > 0);
    await follower().terminate();
    await expect(starting).rejects.toThrow('rank 1: its thread has ended');
    expect(failures).toHaveLength(1);
  });

  it('is heard while nothing is computed', async () => {
    const core = await start(2);
    await follower().terminate();
    await until(() => failures.length > 0);
    expect(failures.map(({ message }) => message)).toEqual(['rank 1: its thread has ended']);
    core.scheduler.add(REQUESTS[0]!);
    expect(() => core.step()).toThrow('rank 1: its thread has ended');
  });

  const requests = REQUESTS.slice(0, 8).map((one) => ({ ...one, stop: { ...one.stop, maxTokens: 60 } }));

  it.each(MOMENTS.flatMap((moment) => [1, 2].map((numStages) => ({ ...moment, numStages }))))(
    'ends the step where $when, and names itself, in stages: $numStages',
    async (one) => {
      const core = await start(2, { pipelineParallelSize: one.numStages });
      for (const request of requests) core.scheduler.add(request);
      await endRank(core, follower(), one);
    },
  );

  it('does not keep a step waiting that is sampled when it ends', async () => {
    const core = await start(2);
    const { executor } = core;
    for (const one of requests) core.scheduler.add(one);
    const step = core.scheduler.schedule();
    executor.forward(step, 1);
    await follower().terminate();
    expect(() => {
      executor.sample(core.scheduler.logitEdits(step));
      executor.read();
    }).toThrow(/rank 1/);
  });

  it('says what it failed of in the middle of a step', async () => {
    const { executor, scheduler } = await start(2);
    for (const one of requests) scheduler.add(one);
    const step = scheduler.schedule();
    // What is inherited is not sent: only rank 0 can read this one.
    executor.forward(Object.create(step), 1);
    expect(() => {
      executor.sample(scheduler.logitEdits(step));
      executor.read();
    }).toThrow(/^rank 1: \w+ is not iterable/);
  });

  it('says what it found wrong, by its class', async () => {
    const [, seat] = openRankGroup(2).seats;
    const config = {
      ...ENGINE_DEFAULTS,
      modelPath: newFolder(),
      numThreads: 2,
      tensorParallelSize: 2,
    } as const;
    const error = await new Promise((resolve) => {
      const listeners = {
        onProgress() {},
        onWarning() {},
        onProposed() {},
        onReady() {},
        onAdapterDone() {},
        onFailure: resolve,
      };
      new RankLink(config, 1, [seat!], listeners);
    });
    expect(error).toBeInstanceOf(ModelLoadError);
    expect(error).toMatchObject({ message: expect.stringMatching(/^rank 1: .*config.json/) });
  });
});

it('refuses more ranks than cores, unless they may share them', needsNative, async () => {
  await expect(start(8, { numThreads: 4 })).rejects.toThrow(
    '--num-threads 4 has no thread for each of 8 ranks or stages: use at least 8',
  );
  const all = { numThreads: null, cpuBind: [[0]] };
  await expect(start(2, all)).rejects.toThrow('--cpu-bind 0 has 1 lists for 2 ranks');
});
