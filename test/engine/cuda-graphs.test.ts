// Decode steps as CUDA graphs, over an emulated driver: the bytes of steps that are launched op by op, and few graphs.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import { NO_SLOT } from '../../src/ops/ops.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { describeCuda, needsCudaEmulator, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { type Answer, generate } from '../helpers/generate.ts';
import { newRequest } from '../helpers/new-request.ts';
import { goldenFolder } from '../models/golden-cases.ts';

describe('decode steps on the CUDA backend', needsCudaEmulator, () => {
  let modelPath: string;
  let eager: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    modelPath = mkdtempSync(join(os.tmpdir(), 'svc-graphs-'));
    writeTinyModel(modelPath, { architecture: 'Qwen3ForCausalLM', seed: 1 });
    eager = await serve({ enforceEager: true });
  });
  afterAll(() => rmSync(modelPath, { recursive: true }));
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  /** A batch that grows and shrinks, with prompts between; what all requests got, and what the backend recorded. */
  async function serve(options: Partial<EngineConfig>): Promise<{
    answers: Map<number, Answer>;
    recorded: NativeOps['recorded'];
    warnings: string[];
  }> {
    const asked = vi.spyOn(NativeOps.prototype, 'paddedBatch');
    const warnings: string[] = [];
    const core = await EngineCore.start(
      {
        ...ENGINE_DEFAULTS,
        modelPath,
        dtype: 'bfloat16',
        kvCacheMemoryBytes: 4 * 2 ** 20,
        device: 'cuda',
        maxNumBatchedTokens: 40,
        maxNumSeqs: 16,
        ...options,
      },
      { onWarning: (message) => warnings.push(message) },
    );
    const requests = [20, 3, 33, 1, 9].map((length, id) => request(id, length, 5 + 4 * id));
    const arrivals = [0, 2, 2, 7, 9];
    const abort = setAbort(core, 3, 13);
    const answers = generate(core, requests, arrivals);
    abort.restore();
    const { recorded } = asked.mock.contexts.at(-1) as NativeOps;
    core.close();
    return { answers, recorded, warnings };
  }

  /** Ends request `id` by the client at step `at`: what it has until then is its answer. */
  function setAbort(core: EngineCore, id: number, at: number): { restore(): void } {
    let step = 0;
    const spy = vi.spyOn(core, 'step').mockImplementation(function (this: EngineCore) {
      step += 1;
      if (step === at) core.scheduler.abort(id);
      return EngineCore.prototype.step.call(core);
    });
    return { restore: () => spy.mockRestore() };
  }

  function request(id: number, length: number, maxTokens: number): NewRequest {
    return newRequest({
      id,
      promptTokenIds: Array.from({ length }, (_, index) => (id * 131 + index * 17) % 96),
      sampling: { temperature: id % 2, seed: id, numLogprobs: id === 2 ? 1 : null },
      stop: { stopTokenIds: [], minTokens: 0, maxTokens },
    });
  }

  it('have the bytes of steps that are launched op by op, and are launched as graphs', async () => {
    const graphs = await serve({});
    expect(graphs.answers).toEqual(eager.answers);
    expect(eager.recorded).toEqual({ count: 0, replays: 0, failure: '' });
    expect(graphs.recorded.replays).toBeGreaterThan(graphs.recorded.count);
    // Batches of 1, 2, 4 and 8, of few pieces each, for contexts of up to 64 and up to 128 tokens.
    expect(graphs.recorded.count).toBeGreaterThan(0);
    expect(graphs.recorded.count).toBeLessThanOrEqual(4 * 3 * 3);
    expect(graphs.warnings).toEqual([]);
  });

  it('have the same bytes where attention follows a schedule', async () => {
    const { answers, recorded } = await serve({ attention: { backend: 'FLASHINFER', isForPrefill: true } });
    expect(answers).toEqual(eager.answers);
    expect(recorded.replays).toBeGreaterThan(recorded.count);
  });

  it.each([
    ['keep states', 'qwen3-next'],
    ['have heads of their own', 'gemma4'],
    ['see chunks of tokens, and weigh what experts see', 'llama4'],
  ])('have the same bytes where layers %s', async (_, golden) => {
    const model = { modelPath: goldenFolder(golden) };
    const [expected, { answers, recorded }] = [
      await serve({ ...model, enforceEager: true }),
      await serve(model),
    ];
    expect(answers).toEqual(expected.answers);
    expect(recorded.replays).toBeGreaterThan(recorded.count);
  });

  it(
    'are launched op by op where the driver makes no graphs, with one warning',
    needsCudaEmulators,
    async () => {
      vi.stubEnv('SVC_EMULATED_GRAPHS', '0');
      const failed = await serve({});
      expect(failed.answers).toEqual(eager.answers);
      expect(failed.recorded).toMatchObject({ count: 0, replays: 0 });
      expect(failed.warnings).toEqual([
        expect.stringMatching(/^no more CUDA graphs are made.*could not make a graph.*OUT_OF_MEMORY/),
      ]);
    },
  );
});

describeCuda('launches of a step of single tokens', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());
  const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, headDim: 16, dtype: 'bf16' } as const;
  const cache = cuda.makeKvCache(shape);
  const batch = {
    numSequences: 1,
    queryStarts: Int32Array.of(0, 1),
    contextLengths: Int32Array.of(1),
    blockTables: Int32Array.of(0),
    maxBlocks: 1,
  };

  /** Ten launches whose arguments come again where `factor` does. */
  function launch(factor: number): number {
    cuda.beginStep(cache, { positions: Int32Array.of(0), slotMapping: Int32Array.of(NO_SLOT), batch });
    return cuda.scope(() => {
      const x = cuda.tensor(Float32Array.of(1), 1, 1, 'f32');
      for (let i = 0; i < 10; i++) cuda.scale(x, factor);
      return cuda.read(x)[0]!;
    });
  }

  it('are a graph from the second time on, and never others than those that were asked for', () => {
    for (const factor of [2, 2, 2, 3, 2, 3, 3]) expect(launch(factor)).toBe(factor ** 10);
    expect(cuda.recorded).toMatchObject({ count: 2, replays: 5 });
  });

  it('are forgotten where too many others came, those first that were not used for longest', () => {
    cuda.limitRecorded(35);
    for (const factor of [2, 4, 4, 5, 5, 2, 2, 6, 6]) expect(launch(factor)).toBe(factor ** 10);
    expect(cuda.recorded.count).toBe(3);
    const { replays } = cuda.recorded;
    launch(4);
    expect(cuda.recorded).toMatchObject({ count: 2, replays });
  });
});
