// Several engines in one process: the bytes are those of one, and what is said of one is said of all.

import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import { EngineGroup } from '../../src/engine/engine-group.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { ConfigError, EngineDeadError, ModelLoadError } from '../../src/errors.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends } from '../helpers/backends.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const newFolder = temporaryFolders();
const KV_BYTES = 2 ** 23;
const LORA = { modules: [], maxLoras: 2, maxLoraRank: 16 };

async function start(config: Partial<EngineConfig> = {}, onWarning?: (message: string) => void) {
  const folder = newFolder();
  writeTinyModel(folder, { seed: 3 });
  return InferenceEngine.start(
    { ...ENGINE_DEFAULTS, modelPath: folder, kvCacheMemoryBytes: KV_BYTES, numThreads: 2, ...config },
    { onWarning },
  );
}

async function answer(engine: InferenceEngine, tokenIds: number[], fields: object = {}) {
  const params = resolveSamplingParams({ max_tokens: 8, ignore_eos: true, ...fields });
  const request = await engine.prepare({ tokenIds }, params);
  const samples = await collectSamples(engine.generate(request));
  return samples.map((sample) => sample.tokenIds);
}

const textOf = (text: number, length: number) =>
  Array.from({ length }, (_, index) => 1 + ((text * 37 + index * 11) % 200));

describe.each(availableBackends)('two engines on %s', (device) => {
  it('draw the tokens of one, seeds of requests without one included', async () => {
    const requests = Array.from({ length: 10 }, (_, index) => textOf(index % 5, 10 + 5 * index));
    const answers = [];
    for (const dataParallelSize of [1, 2]) {
      const engine = await start({ device, dataParallelSize });
      answers.push(await Promise.all(requests.map((ids) => answer(engine, ids, { temperature: 1, n: 2 }))));
      const stats = await engine.statsByEngine();
      expect(stats).toHaveLength(dataParallelSize);
      for (const { generationTokens } of stats) expect(generationTokens).toBeGreaterThan(0);
      const { generationTokens, freeBlocks, numBlocks } = await engine.stats();
      expect(generationTokens).toBe(10 * 2 * 8);
      expect(freeBlocks).toBe(numBlocks);
      await engine.close();
    }
    expect(answers[1]).toEqual(answers[0]);
  });

  it('have half of the KV memory each', async () => {
    const one = await start({ device });
    const two = await start({ device, dataParallelSize: 2 });
    expect(two.info.numBlocks).toBe(Math.floor(one.info.numBlocks / 2));
    await Promise.all([one.close(), two.close()]);
  });
});

describe('two engines', needsNative, () => {
  it('get a prompt where its beginning is cached, and forget that when they are told to', async () => {
    const engine = await start({ dataParallelSize: 2 });
    const hits = async () => (await engine.statsByEngine()).map((stats) => stats.prefixCacheHits);
    const text = textOf(1, 160);
    for (let turn = 0; turn < 4; turn++) await answer(engine, [...text, turn + 1]);
    expect((await hits()).toSorted((a, b) => a - b)).toEqual([0, 3 * 160]);
    expect(await engine.resetPrefixCache()).toBe(true);
    await answer(engine, text);
    expect((await hits()).reduce((sum, each) => sum + each)).toBe(3 * 160);
    await engine.close();
  });

  it('have a seat each for a caller that may have both', async () => {
    const engine = await start({ dataParallelSize: 2, maxNumSeqs: 1 });
    const params = { max_tokens: 200, ignore_eos: true };
    const answers = [1, 2].map((text) => answer(engine, textOf(text, 10), params));
    await until(async () => (await engine.statsByEngine()).every(({ running }) => running === 1));
    await Promise.all(answers);
    await engine.close();
  });

  it('load an adapter both, or none where one is refused', async () => {
    const engine = await start({ dataParallelSize: 2, lora: LORA });
    const path = newFolder();
    writeTinyAdapter(path, { seed: 4 });
    const broken = { name: 'broken', path: newFolder(), baseModelName: null };
    await expect(engine.adapters.load(broken)).rejects.toThrow(ModelLoadError);
    const adapter = await engine.adapters.load({ name: 'a', path, baseModelName: null });
    const params = resolveSamplingParams({ max_tokens: 8, temperature: 0, ignore_eos: true });
    const prepared = await engine.prepare({ tokenIds: textOf(1, 10) }, params, { adapter });
    const both = await Promise.all([0, 1].map(() => collectSamples(engine.generate(prepared))));
    expect(both[1]![0]!.tokenIds).toEqual(both[0]![0]!.tokenIds);
    for (const { generationTokens } of await engine.statsByEngine()) expect(generationTokens).toBe(8);
    await engine.close();
  });

  it.each([
    ['ranks', { tensorParallelSize: 2 }],
    ['stages', { pipelineParallelSize: 2 }],
  ] as const)('of two %s each draw the tokens of one that is whole', async (_, parts) => {
    const answers = [];
    for (const config of [{}, { dataParallelSize: 2, ...parts }]) {
      const engine = await start({ ...config, numThreads: 4 });
      answers.push(await Promise.all([1, 2, 3, 4].map((text) => answer(engine, textOf(text, 20)))));
      await engine.close();
    }
    expect(answers[1]).toEqual(answers[0]);
  });

  it('are both dead when one is, and errors name it', async () => {
    const workers: Worker[] = [];
    const note = (worker: Worker): void => void workers.push(worker);
    process.on('worker', note);
    const engine = await start({ dataParallelSize: 2 });
    process.off('worker', note);
    const endless = { max_tokens: 400, ignore_eos: true };
    const deaths = [1, 2].map((text) =>
      expect(answer(engine, textOf(text, 10), endless)).rejects.toThrow(
        new EngineDeadError('engine 1 of 2 has died: its thread has ended'),
      ),
    );
    await until(async () => (await engine.statsByEngine()).every(({ running }) => running === 1));
    const ended = Promise.all(workers.map((worker) => once(worker, 'exit')));
    await workers[1]!.terminate();
    await Promise.all(deaths);
    expect((await engine.died).message).toMatch(/^engine 1 of 2 has died/);
    expect(engine.isAlive).toBe(false);
    await ended;
    await expect(answer(engine, [1, 2, 3])).rejects.toThrow('engine 1 of 2 has died');
    await engine.close();
  });

  it('both fail a call that comes when only one of them knows that it is dead', async () => {
    const modelPath = newFolder();
    writeTinyModel(modelPath);
    const size = { kvCacheMemoryBytes: KV_BYTES, numThreads: 2, dataParallelSize: 2 };
    const group = await EngineGroup.start({ ...ENGINE_DEFAULTS, modelPath, ...size, lora: LORA });
    const unheard: unknown[] = [];
    const note = (reason: unknown): void => void unheard.push(reason);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const death = new EngineDeadError('engine 1 of 2 has died');
    group.clients[1]!.end(death);
    const adapter = { id: 1, path: newFolder(), maxRank: 16 };
    const calls = [
      async () => group.stats(),
      async () => group.resetPrefixCache(),
      async () => group.loadAdapter(adapter),
    ];
    await Promise.all(calls.map((call) => expect(call()).rejects.toBe(death)));
    expect(group.isAlive).toBe(false);
    await group.close();
    expect(unheard).toEqual([]);
  });

  it('read the packed weights that one of them has written', async () => {
    const packedCache = newFolder();
    const modelPath = newFolder();
    writeTinyModel(modelPath, { seed: 3 });
    const config = { modelPath, packedCache, dataParallelSize: 2 };
    const warnings: string[] = [];
    for (const isFromCache of [false, true]) {
      const engine = await start(config, (message) => warnings.push(message));
      expect(engine.info.isFromPackedCache).toBe(isFromCache);
      await engine.close();
    }
    expect(warnings).toEqual([]);
  });

  it('compute on processors of their own where they are bound', async () => {
    const engine = await start({ dataParallelSize: 2, cpuBind: 'auto' });
    expect(engine.info.compute).toMatch(/, 1 thread on processor \d+$/);
    await engine.close();
  });

  it('are refused where there are not as many threads', async () => {
    const starting = start({ dataParallelSize: 3, numThreads: 2 });
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow('--num-threads 2 has no thread for each of 3 ranks');
  });

  it('fail to start as one would, and say it once', async () => {
    const modelPath = newFolder();
    writeTinyModel(modelPath, { config: { vocab_size: 64 } });
    const warnings: string[] = [];
    const config = { dataParallelSize: 2, modelPath, kvCacheMemoryBytes: 2 ** 10 };
    const starting = start(config, (message) => warnings.push(message));
    await expect(starting).rejects.toThrow('raise --kv-cache-memory-bytes to at least');
  });
});
