// A model in stages on a GPU each, and several engines on GPUs of their own, over emulated GPUs: the answers of one GPU.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { ConfigError } from '../../src/errors.ts';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { emulateGpus, needsCudaEmulators, needsSeveralGpus } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { startedThreads } from '../helpers/started-threads.ts';
import { tinyModels } from '../helpers/tiny-models.ts';
import { architectureGoldens } from '../models/golden-cases.ts';
import { endRank, MOMENTS } from './rank-end.ts';

const modelOf = tinyModels();
const threads = startedThreads();
beforeEach(() => emulateGpus(4));

afterEach(() => void vi.unstubAllEnvs());
const opened = closedAfterwards();

const configOf = (options: Partial<EngineConfig>): EngineConfig => ({
  ...ENGINE_DEFAULTS,
  modelPath: modelOf('LlamaForCausalLM'),
  dtype: 'bfloat16',
  device: 'cuda',
  kvCacheMemoryBytes: 2 ** 20,
  maxNumBatchedTokens: 40,
  ...options,
});

async function start(numStages: number, options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  return opened(await EngineCore.start(configOf({ pipelineParallelSize: numStages, ...options })));
}

/** Prompts in chunks and with common beginnings, rules that look back, log-probabilities. */
const REQUESTS = Array.from({ length: 4 }, (_, id) =>
  newRequest({
    id,
    promptTokenIds: Array.from({ length: 5 + 14 * id }, (_, index) => (index * (7 + (id % 2))) % 90),
    sampling: { temperature: (id % 3) / 2, seed: id, numLogprobs: id % 3 === 0 ? 2 : null },
    rules: id % 2 === 0 ? { repetitionPenalty: 1.7 } : null,
    stop: { stopTokenIds: [], maxTokens: 3 + id },
  }),
);
const ARRIVALS = [0, 0, 1, 3];

/** Of each way to put layers together one; all of them are computed in stages on the processor. */
const GOLDENS = ['gemma2', 'gemma4', 'mixtral', 'olmo2'];

describe('a model in stages on several GPUs', needsSeveralGpus, () => {
  it.each(architectureGoldens().filter(({ name }) => GOLDENS.includes(name)))(
    'answers as on one: $name',
    async ({ folder: modelPath, cases }) => {
      const requests = cases.map(({ ids }, id) =>
        newRequest({ id, promptTokenIds: ids, sampling: { numLogprobs: 2 }, stop: { maxTokens: 4 } }),
      );
      const expected = generate(await start(1, { modelPath }), requests);
      expect(generate(await start(2, { modelPath, maxNumBatchedTokens: 7 }), requests)).toEqual(expected);
    },
  );

  it('gives a mix of requests the bytes of one, with CUDA graphs, and cut over ranks', async () => {
    const expected = generate(await start(1), REQUESTS, ARRIVALS);
    for (const tensorParallelSize of [1, 2] as const) {
      const core = await start(2, { tensorParallelSize });
      expect(generate(core, REQUESTS, ARRIVALS)).toEqual(expected);
      const { ranks, compute } = core.executor.info;
      expect(ranks).toHaveLength(2 * tensorParallelSize);
      expect(compute).toMatch(/^2 (ranks in 2 )?pipeline stages: .*, sm_\d+/);
    }
  });

  it('takes a draft model on the GPU of the last stage', needsCudaEmulators, async () => {
    const free = () => [0, 1, 2].map(freeOf);
    const before = free();
    const model = modelOf('LlamaForCausalLM');
    const plain = await start(2);
    const afterPlain = free();
    const expected = generate(plain, REQUESTS);
    plain.close();
    const core = await start(2, {
      speculative: { method: 'draft_model', numSpeculativeTokens: 2, model },
    });
    const [first, second, third] = free().map((bytes, gpu) => afterPlain[gpu]! - bytes);
    expect([first, third]).toEqual([0, 0]);
    expect(second).toBeGreaterThan(0);
    expect(before[2]).toBe(freeOf(2));
    expect(generate(core, REQUESTS)).toEqual(expected);
    expect(core.stats.speculation?.draftTokens).toBeGreaterThan(0);
  });

  it(
    'has as many blocks as the GPU with the least room for its layers, within the share of each',
    needsCudaEmulators,
    async () => {
      // Of the share 4 MiB are kept for arrays of steps.
      const [MEMORY, SHARE, USABLE] = [80 * 2 ** 20, 0.5, 36 * 2 ** 20];
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', `${MEMORY / 2 ** 20}`);
      const options = {
        kvCacheMemoryBytes: null,
        gpuMemoryUtilization: SHARE,
        maxModelLen: 'auto',
        maxNumSeqs: 64,
        maxNumBatchedTokens: 16,
        enforceEager: true,
      } as const;
      const core = await start(2, options);
      const mostTaken = MEMORY - Math.min(freeOf(0), freeOf(1));
      expect(mostTaken).toBeLessThanOrEqual(USABLE);
      expect(mostTaken).toBeGreaterThan(USABLE - 2 ** 14);
      expect(generate(core, REQUESTS).size).toBe(REQUESTS.length);
    },
  );

  it('ends with the rank that ends while a result is awaited', needsCudaEmulators, async () => {
    const core = await start(2, { tensorParallelSize: 2 });
    for (const one of REQUESTS) core.scheduler.add({ ...one, stop: { ...one.stop, maxTokens: 60 } });
    await endRank(core, threads[0]!, MOMENTS.at(-1)!);
  });
});

/** Bytes that are free on a GPU. */
function freeOf(gpu: number): number {
  const device = loadNative().cudaDevice(cudaDriver(), gpu);
  if (device.missing !== undefined) throw new Error(device.missing);
  return device.freeBytes;
}

describe('several engines on GPUs', needsCudaEmulators, () => {
  async function startEngines(options: Partial<EngineConfig>): Promise<InferenceEngine> {
    return opened(await InferenceEngine.start(configOf(options)));
  }

  it('of two stages each draw the tokens of one, on GPUs of their own', async () => {
    const texts = [1, 2, 3, 4].map((text) =>
      Array.from({ length: 12 }, (_, index) => 1 + ((text * 37 + index * 11) % 80)),
    );
    const params = resolveSamplingParams({ max_tokens: 4, temperature: 1, ignore_eos: true });
    const answersOf = (engine: InferenceEngine) =>
      Promise.all(
        texts.map(async (tokenIds) => {
          const samples = await collectSamples(engine.generate(await engine.prepare({ tokenIds }, params)));
          return samples.map((sample) => sample.tokenIds);
        }),
      );
    const one = await startEngines({});
    const expected = await answersOf(one);
    await one.close();
    const before = [0, 1, 2, 3].map(freeOf);
    const engine = await startEngines({ pipelineParallelSize: 2, dataParallelSize: 2 });
    expect(await answersOf(engine)).toEqual(expected);
    for (const { generationTokens } of await engine.statsByEngine())
      expect(generationTokens).toBeGreaterThan(0);
    const taken = [0, 1, 2, 3].map((gpu) => before[gpu]! - freeOf(gpu));
    expect(Math.min(...taken)).toBeGreaterThan(0);
  });

  it('are refused where there are too few GPUs', async () => {
    vi.stubEnv('SVC_EMULATED_GPUS', '3');
    const starting = startEngines({ dataParallelSize: 2, pipelineParallelSize: 2 });
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow(
      /^--data-parallel-size 2 and --pipeline-parallel-size 2 need 4 GPUs, and the NVIDIA driver shows 3: /,
    );
  });
});

// The last: a GPU that is broken is so for the rest of the process.
describe('a stage whose GPU breaks', needsCudaEmulators, () => {
  it('ends the engine with its name', async () => {
    const core = await start(3);
    core.scheduler.add(newRequest({ id: 1, promptTokenIds: [5, 6], stop: { maxTokens: 60 } }));
    core.step();
    vi.stubEnv('SVC_EMULATED_BROKEN', '1');
    const goOn = () => {
      while (core.step() !== null);
    };
    expect(goOn).toThrow(
      /^pipeline stage 2 of 3 failed: the GPU could not (compute|launch svc\w+) \(CUDA_ERROR_ILLEGAL_ADDRESS/,
    );
  });
});
