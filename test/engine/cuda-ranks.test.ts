// A model cut over ranks on a GPU each, over emulated GPUs: the answers of one GPU, and one end for all of them.

import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineConfig, TensorParallelSize } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { ConfigError } from '../../src/errors.ts';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { emulateGpus, needsCudaEmulators, needsSeveralGpus } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { startedThreads } from '../helpers/started-threads.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { tinyModels } from '../helpers/tiny-models.ts';
import { until } from '../helpers/until.ts';
import { endRank, MOMENTS } from './rank-end.ts';

const newFolder = temporaryFolders();

const fixture = (path: string) => fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));

const modelOf = tinyModels();

const threads = startedThreads();
beforeEach(() => emulateGpus(2));

afterEach(() => void vi.unstubAllEnvs());
const opened = closedAfterwards();

async function start(
  tensorParallelSize: TensorParallelSize,
  options: Partial<EngineConfig> = {},
): Promise<EngineCore> {
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath: modelOf('LlamaForCausalLM'),
    dtype: 'bfloat16',
    device: 'cuda',
    kvCacheMemoryBytes: 2 ** 20,
    maxNumBatchedTokens: 40,
    tensorParallelSize,
    ...options,
  });
  return opened(core);
}

/** Prompts in chunks and with common beginnings, rules that look back, log-probabilities. */
const REQUESTS = Array.from({ length: 6 }, (_, id) =>
  newRequest({
    id,
    promptTokenIds: Array.from({ length: 5 + 9 * id }, (_, index) => (index * (7 + (id % 2))) % 90),
    sampling: { temperature: (id % 3) / 2, seed: id, numLogprobs: id % 3 === 0 ? 2 : null },
    rules: id % 2 === 0 ? { repetitionPenalty: 1.7 } : null,
    stop: { stopTokenIds: [], maxTokens: 3 + id },
  }),
);
const ARRIVALS = [0, 0, 1, 1, 3, 4];

describe('a model on several GPUs', needsSeveralGpus, () => {
  // The newest first: where a GPU is there for a short while, the last ones may not have their turn.
  it.each<[string, Partial<EngineConfig>]>([
    ['goldens/gemma3n', {}],
    ['goldens/gemma4-moe', {}],
    ['goldens/qwen3-next', {}],
    ['goldens/granite-hybrid-mamba', {}],
    ['goldens/nemotron-h', {}],
    ['goldens/falcon-h1', {}],
    ['LlamaForCausalLM', { quantization: 'int8' }],
    ['LlamaForCausalLM', { attention: { backend: 'FLASHINFER', isForPrefill: true } }],
    ['DeepseekV3ForCausalLM', {}],
    ['goldens/gemma2', {}],
    ['goldens/mixtral', {}],
    ['goldens/gpt-oss-mxfp4', { dtype: 'auto' }],
  ])('gives the bytes of one: %s, %o', async (name, options) => {
    const modelPath = name.startsWith('goldens/') ? fixture(name) : modelOf(name);
    const config = { ...options, modelPath };
    const one = await start(1, config);
    const expected = generate(one, REQUESTS, ARRIVALS);
    const two = await start(2, config);
    expect(generate(two, REQUESTS, ARRIVALS)).toEqual(expected);
    expect(two.executor.info.ranks).toHaveLength(2);
    expect(two.executor.info.compute).toBe(`2 ranks: ${one.executor.info.compute}`);
  });

  it('takes adapters, and guesses by n-grams and by a draft model', async () => {
    const path = newFolder();
    writeTinyAdapter(path, { seed: 3 });
    const lora = { modules: [{ name: 'a', path, baseModelName: null }], maxLoras: 2, maxLoraRank: 16 };
    const requests = REQUESTS.map((one, index) => ({ ...one, adapterId: index % 2 === 0 ? null : 0 }));
    const expected = generate(await start(1, { lora }), requests);
    const guess = { numSpeculativeTokens: 2 };
    for (const speculative of [
      { ...guess, method: 'ngram', promptLookupMax: 3, promptLookupMin: 1 } as const,
      { ...guess, method: 'draft_model', model: modelOf('LlamaForCausalLM') } as const,
    ]) {
      const core = await start(2, { lora, speculative });
      expect(generate(core, requests)).toEqual(expected);
      expect(core.stats.speculation?.draftTokens).toBeGreaterThan(0);
    }
  });

  it(
    'has a share of the memory of each, and the longest context that all have room for',
    needsCudaEmulators,
    async () => {
      const [MEMORY, SHARE] = [80 * 2 ** 20, 0.7];
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', `${MEMORY / 2 ** 20}`);
      const core = await start(2, {
        kvCacheMemoryBytes: null,
        gpuMemoryUtilization: SHARE,
        maxModelLen: 'auto',
        maxNumSeqs: 4,
        maxNumBatchedTokens: 16,
      });
      for (const gpu of [0, 1]) {
        const device = loadNative().cudaDevice(cudaDriver(), gpu);
        if (device.missing !== undefined) throw new Error(device.missing);
        expect(device.totalBytes - device.freeBytes).toBeLessThanOrEqual(MEMORY * SHARE);
      }
      expect(generate(core, REQUESTS).size).toBe(REQUESTS.length);
    },
  );
});

describe('the start of several GPUs', needsCudaEmulators, () => {
  it.each([
    ['more ranks than GPUs', { SVC_EMULATED_GPUS: '1' }, /tensor-parallel-size 2 needs 2 GPUs, .* shows 1: /],
    ['no NCCL', { SVC_NCCL: '/nowhere/libnccl.so.2' }, /NCCL is not there .*libnccl2/],
  ])('says what is wrong with %s', async (_, variables, why) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    const starting = start(2);
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow(why);
    await until(() => threads.length > 0);
  });
});

describe('a rank of a GPU whose thread ends', needsCudaEmulators, () => {
  it.each(MOMENTS)('ends the step where $when, and names itself', async (moment) => {
    const core = await start(2);
    for (const one of REQUESTS) core.scheduler.add({ ...one, stop: { ...one.stop, maxTokens: 60 } });
    await endRank(core, threads[0]!, moment);
  });
});
