// A whole model on the CUDA backend, over an emulated driver and its real kernels.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { ConfigError, EngineDeadError, NotAvailableError } from '../../src/errors.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';
import { modelFolder } from '../../src/models/model-folder.ts';
import { cudaDriver, loadNative } from '../../src/native/native.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { needsCudaEmulator, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { goldenFolder } from '../models/golden-cases.ts';

const ARCHITECTURES = ['Qwen3ForCausalLM', 'Qwen2MoeForCausalLM', 'DeepseekV3ForCausalLM'];

describe('a model on the CUDA backend', needsCudaEmulator, () => {
  let folder: string;
  const modelOf = (architecture: string) => join(folder, architecture);
  const goldens = [
    'qwen3-next',
    'granite-hybrid-mamba',
    'nemotron-h',
    'falcon-h1',
    'gemma4',
    'gemma4-small',
    'gemma3n',
  ];
  const pathOf = (name: string) => (goldens.includes(name) ? goldenFolder(name) : modelOf(name));
  beforeAll(() => {
    folder = mkdtempSync(join(os.tmpdir(), 'svc-cuda-'));
    for (const architecture of ['LlamaForCausalLM', ...ARCHITECTURES]) {
      writeTinyModel(modelOf(architecture), { architecture, seed: 1 });
    }
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function start(device: EngineConfig['device'], options: Partial<EngineConfig> = {}): Promise<EngineCore> {
    return EngineCore.start({
      ...ENGINE_DEFAULTS,
      modelPath: modelOf('LlamaForCausalLM'),
      dtype: 'bfloat16',
      kvCacheMemoryBytes: 4 * 2 ** 20,
      device,
      ...options,
    });
  }

  function request(
    id: number,
    length: number,
    temperature: number,
    numLogprobs: number | null,
    vocabSize = 256,
  ): NewRequest {
    return newRequest({
      id,
      promptTokenIds: Array.from({ length }, (_, index) => (id * 131 + index * 17) % vocabSize),
      sampling: { temperature, seed: id, numLogprobs },
      stop: { stopTokenIds: [], minTokens: 0, maxTokens: 4 },
    });
  }

  it.each(ARCHITECTURES)('gives the tokens of the reference: %s', async (architecture) => {
    const modelPath = modelOf(architecture);
    const [cuda, reference] = [await start('cuda', { modelPath }), await start('reference', { modelPath })];
    const [actual, expected] = [cuda, reference].map(
      (core) => generate(core, [request(1, 20, 0, null)]).get(1)!.tokenIds,
    );
    expect(actual).toEqual(expected);
    for (const core of [cuda, reference]) core.close();
  });

  it.each(['LlamaForCausalLM', 'Qwen2MoeForCausalLM', 'DeepseekV3ForCausalLM', ...goldens])(
    'gives a request the same bytes alone, beside others that come and go, and in chunks: %s',
    async (name) => {
      const model = { modelPath: pathOf(name) };
      const alone = await start('cuda', { ...model, enablePrefixCaching: false });
      const chunked = await start('cuda', { ...model, maxNumBatchedTokens: 9, maxNumSeqs: 4 });
      const crowded = await start('cuda', model);
      const { vocabSize } = alone.executor.info;
      const one = request(9, 30, 1, 1, vocabSize);
      const others = [7, 17, 1].map((length, id) => request(id, length, 1, null, vocabSize));
      const expected = generate(alone, [one]).get(9);
      expect(generate(chunked, [one]).get(9)).toEqual(expected);
      expect(generate(crowded, [one, ...others], [1, 0, 1, 2]).get(9)).toEqual(expected);
      for (const core of [alone, chunked, crowded]) core.close();
    },
  );

  it('computes a checkpoint in float16 in it, as the reference does, and the processor in bfloat16', async () => {
    const modelPath = join(folder, 'f16');
    writeTinyModel(modelPath, { dtype: 'f16', seed: 1 });
    const options = { modelPath, dtype: 'auto' } as const;
    const cores = [
      await start('cuda', options),
      await start('reference', options),
      await start('cpu', options),
    ];
    expect(cores.map(({ executor: { info } }) => [info.dtype, info.kvDType, info.weightFormat])).toEqual([
      ['f16', 'f16', 'f16'],
      ['f16', 'f16', 'f16'],
      ['bf16', 'bf16', 'bf16'],
    ]);
    const [actual, expected] = cores.map(
      (core) => generate(core, [request(1, 20, 0, null)]).get(1)!.tokenIds,
    );
    expect(actual).toEqual(expected);
    for (const core of cores) core.close();
  });

  it('gives a request in float16 the same bytes alone, beside others, and in chunks', async () => {
    const options = { dtype: 'float16' } as const;
    const alone = await start('cuda', { ...options, enablePrefixCaching: false });
    const chunked = await start('cuda', { ...options, maxNumBatchedTokens: 9, maxNumSeqs: 4 });
    const expected = generate(alone, [request(9, 30, 1, 1)]).get(9);
    const beside = [request(9, 30, 1, 1), ...[7, 17, 1].map((length, id) => request(id, length, 1, null))];
    expect(generate(chunked, beside, [1, 0, 1, 2]).get(9)).toEqual(expected);
    for (const core of [alone, chunked]) core.close();
  });

  it.each(['cpu', 'auto'] as const)('says that --device %s has no float16', async (device) => {
    vi.stubEnv('SVC_CUDA_DRIVER', '/nowhere/libcuda.so.1');
    await expect(start(device, { dtype: 'float16' })).rejects.toThrow(
      /--dtype float16 is computed on an NVIDIA GPU, not on the processor.*use bfloat16, or auto/,
    );
    vi.unstubAllEnvs();
  });

  it('keeps keys and values of float16 in no bf16', async () => {
    const options = { dtype: 'float16', kvCacheDtype: 'bf16' } as const;
    await expect(start('cuda', options)).rejects.toThrow(/--kv-cache-dtype bf16 is for models in bfloat16/);
  });

  it('gives requests of several adapters the tokens of the reference, side by side', async () => {
    const modules = [4, 16].map((rank, id) => {
      const path = join(folder, `adapter-${id}`);
      writeTinyAdapter(path, { seed: id + 1, rank });
      return { name: `${id}`, path, baseModelName: null };
    });
    const lora = { modules, maxLoras: 8, maxLoraRank: 64 };
    const cores = [await start('cuda', { lora }), await start('reference', { lora })];
    const [actual, expected] = cores.map((core) => {
      const requests = [null, 0, 1, 0].map((adapterId, id) => ({
        ...request(id, 15, 0, null),
        adapterId,
        extraKeys: adapterId === null ? [] : adapterKeys(core.executor.adapters[adapterId]!.digest),
      }));
      const answers = generate(core, requests);
      core.close();
      return requests.map(({ id }) => answers.get(id)!.tokenIds);
    });
    expect(actual).toEqual(expected);
  });

  it.each<Partial<EngineConfig>>([
    { dtype: 'float32' },
    { quantization: 'int8', kvCacheDtype: 'int8' },
    { quantization: 'int4', kvCacheDtype: 'fp8' },
  ])('gives a request the same bytes in chunks and whole with %o', async (options) => {
    const whole = await start('cuda', { ...options, enablePrefixCaching: false });
    const chunked = await start('cuda', { ...options, maxNumBatchedTokens: 9, maxNumSeqs: 4 });
    const [expected, actual] = [whole, chunked].map((core) => generate(core, [request(9, 30, 1, 1)]).get(9));
    expect(actual).toEqual(expected);
    for (const core of [whole, chunked]) core.close();
  });

  it.each([
    ['heads of 12 numbers', { head_dim: 12 }],
    // Which only a step finds out.
    ['72 query heads a KV head', { num_attention_heads: 72, num_key_value_heads: 1, head_dim: 8 }],
  ])(
    'leaves a model that the GPU cannot compute to the processor with --device auto: %s',
    async (what, config) => {
      const modelPath = modelOf(what);
      writeTinyModel(modelPath, { seed: 1, config });
      await expect(start('cuda', { modelPath })).rejects.toThrow(NotAvailableError);
      const core = await start('auto', { modelPath });
      const { backend, backendReason } = core.executor.info;
      expect([backend, backendReason]).toEqual([
        'cpu',
        expect.stringMatching(RegExp(`not on a GPU: ${what}`)),
      ]);
      expect(generate(core, [request(1, 5, 0, null)]).get(1)!.tokenIds).toHaveLength(4);
      core.close();
    },
  );

  it(
    'says what to do where a step finds no memory beside a cache of a given size',
    needsCudaEmulators,
    async () => {
      onTestFinished(() => void vi.unstubAllEnvs());
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', '64');
      const startWith = (kvCacheMemoryBytes: number) =>
        InferenceEngine.start({
          ...ENGINE_DEFAULTS,
          modelPath: modelOf('LlamaForCausalLM'),
          device: 'cuda',
          kvCacheMemoryBytes,
        });
      // Activations come in pages of 32 MiB, of which the start needs one.
      await expect(startWith(60 * 2 ** 20)).rejects.toThrow(
        /the KV cache finds no memory on the GPU: .*lower --kv-cache-memory-bytes/,
      );
      const engine = await startWith(2 ** 20);
      onTestFinished(() => engine.close());
      const other = openCuda();
      onTestFinished(() => other.close());
      // Blocks of 1 KiB in all that is left: none for the arrays of a larger step.
      const shape = { layers: 1, blockSize: 16, kvHeads: 1, headDim: 16, dtype: 'bf16' } as const;
      other.makeKvCache({ ...shape, blocks: Math.floor(other.freeMemory() / 1024) });
      const tokenIds = Array.from({ length: 500 }, (_, index) => index % 256);
      const prepared = await engine.prepare({ tokenIds }, resolveSamplingParams({ max_tokens: 2 }));
      await expect(collectSamples(engine.generate(prepared))).rejects.toThrow(EngineDeadError);
      expect((await engine.died).message).toMatch(
        /a step finds no memory on the GPU: .*lower --kv-cache-memory-bytes/,
      );
    },
  );

  describe('with a share of its memory', needsCudaEmulators, () => {
    /** For arrays of steps, and what memory comes in. */
    const [PARCELS, PAGE] = [4 * 2 ** 20, 4096];
    const MEMORY = 64 * 2 ** 20;
    beforeEach(() => vi.stubEnv('SVC_EMULATED_MEMORY_MB', `${MEMORY / 2 ** 20}`));

    const freeBytes = () => {
      const device = loadNative().cudaDevice(cudaDriver(), 0);
      if (device.missing !== undefined) throw new Error(device.missing);
      return device.freeBytes;
    };
    const startWith = (gpuMemoryUtilization: number, options: Partial<EngineConfig> = {}) => {
      const limits = { maxNumBatchedTokens: 40, maxNumSeqs: 32, enforceEager: true };
      return start('cuda', { kvCacheMemoryBytes: null, gpuMemoryUtilization, ...limits, ...options });
    };

    it.each<Partial<EngineConfig>>([{}, { attention: { backend: 'FLASHINFER', isForPrefill: true } }])(
      'gives the cache what weights and the largest steps leave of it, and never takes more: %o',
      async (options) => {
        const [before, share] = [freeBytes(), 0.63];
        const core = await startWith(share, options);
        // Keys and values of 3 layers with 2 heads of 16 numbers.
        const blockBytes = core.executor.info.blockSize * (2 * 3 * 2 * 16 * 2);
        const taken = () => before - freeBytes();
        expect(taken() + PARCELS - PAGE).toBeLessThanOrEqual(MEMORY * share);
        expect(taken() + PARCELS + blockBytes).toBeGreaterThan(MEMORY * share);
        const requests = Array.from({ length: 36 }, (_, id) => request(id, id < 3 ? 90 : 1 + (id % 7), 1, 3));
        expect(generate(core, requests).size).toBe(36);
        expect(taken()).toBeLessThanOrEqual(MEMORY * share);
        core.close();
      },
    );

    it('computes the largest steps of layers that keep states', async () => {
      const [before, share] = [freeBytes(), 0.63];
      const core = await startWith(share, { modelPath: goldenFolder('qwen3-next') });
      const { vocabSize } = core.executor.info;
      const requests = [90, 3, 1].map((length, id) => request(id, length, 1, null, vocabSize));
      expect(generate(core, requests).size).toBe(3);
      expect(before - freeBytes()).toBeLessThanOrEqual(MEMORY * share);
      core.close();
    });

    it('has states in half of what activations leave', async () => {
      const model = { modelPath: goldenFolder('qwen3-next'), maxNumSeqs: 128 };
      const core = await startWith(0.6, model);
      const { maxNumSeqs, vocabSize } = core.executor.info;
      expect(maxNumSeqs).toBeLessThan(128);
      expect(generate(core, [request(0, 60, 1, null, vocabSize)]).size).toBe(1);
      core.close();
    });

    it('keeps some for CUDA graphs', async () => {
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', '512');
      const before = freeBytes();
      const core = await startWith(0.578, { enforceEager: false });
      expect(before - freeBytes()).toBeLessThanOrEqual(0.578 * 512 * 2 ** 20 - 256 * 2 ** 20);
      core.close();
    });

    it('is refused with the sizes where the cache finds no room', async () => {
      const refused = startWith(0.4);
      await expect(refused).rejects.toThrow(ConfigError);
      await expect(refused).rejects.toThrow(
        /gpu-memory-utilization 0\.4 gives 25\.6 MiB: \S+ [KM]iB are taken by weights and kernels, 3\d\.\d MiB by activations/,
      );
    });

    it('is refused where the largest step finds no room', async () => {
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', '30');
      const refused = startWith(0.9);
      await expect(refused).rejects.toThrow(ConfigError);
      await expect(refused).rejects.toThrow(
        /OUT_OF_MEMORY.*lower --max-num-batched-tokens or --max-num-seqs/,
      );
    });

    it.each([
      [
        'weights',
        '4',
        2 ** 21,
        /^the weights of the model find no memory on the GPU: .*--quantization.*--device cpu$/,
      ],
      [
        'a KV cache of a given size',
        '64',
        2 ** 27,
        /^the KV cache finds no memory .*: lower --kv-cache-memory-bytes$/,
      ],
    ])('is refused where there is too little for %s', async (_, megabytes, kvCacheMemoryBytes, why) => {
      vi.stubEnv('SVC_EMULATED_MEMORY_MB', megabytes);
      const before = freeBytes();
      // The model that comes along: 6 MiB.
      const refused = startWith(0.9, { kvCacheMemoryBytes, modelPath: await modelFolder('') });
      await expect(refused).rejects.toThrow(ConfigError);
      await expect(refused).rejects.toThrow(why);
      expect(freeBytes()).toBe(before);
    });
  });
});
