// Two engines of one thread beside one engine of two: what a copy of the model each, and no waiting for the other thread, are worth.

import os from 'node:os';
import { InferenceEngine } from '../src/engine/inference-engine.ts';
import { modelFolder } from '../src/models/model-folder.ts';
import { resolveSamplingParams } from '../src/sampling/sampling-params.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { withRandomEngines } from './random-engine.ts';
import { type Figure, median, type Section } from './report.ts';

const PROMPT_TOKENS = 64;
const OUTPUT_TOKENS = 64;
const CONCURRENCIES = [1, 4, 16];
const RUNS = 3;
const NUM_ENGINES = 2;
const CONFIG = {
  numThreads: Math.max(NUM_ENGINES, os.availableParallelism()),
  maxModelLen: 256,
  enablePrefixCaching: false,
  kvCacheMemoryBytes: 2 ** 29,
};
const SIZES = [1, NUM_ENGINES];

export async function dataParallelSection(): Promise<Section> {
  const configs = SIZES.map((dataParallelSize) => ({ ...CONFIG, dataParallelSize }));
  const small: number[][] = [];
  for (const config of configs) {
    const modelPath = await modelFolder('');
    const engine = await InferenceEngine.start({ ...ENGINE_DEFAULTS, ...config, modelPath });
    small.push(await measure(engine).finally(() => engine.close()));
  }
  const large = await withRandomEngines('qwen2.5-0.5b', configs, measure);
  return {
    title: `${NUM_ENGINES} engines behind one port, ${CONFIG.numThreads} threads in all, ${PROMPT_TOKENS} tokens in, ${OUTPUT_TOKENS} out`,
    figures: [...figuresOf('svc-chat', small), ...figuresOf('qwen2.5-0.5b', large)],
    notes: ['The limit is one engine with all threads; each figure is the median of three runs.'],
  };
}

/** @param measured tokens a second by number of engines, by concurrency */
function figuresOf(model: string, [one = [], several = []]: readonly (readonly number[])[]): Figure[] {
  return CONCURRENCIES.map((concurrency, index) => ({
    name: `${model}, ${concurrency} at once`,
    value: several[index] ?? Number.NaN,
    unit: 'tokens/s',
    limit: one[index] ?? null,
    goal: null,
  }));
}

/** @returns tokens a second, by concurrency */
async function measure(engine: InferenceEngine): Promise<number[]> {
  const measured: number[] = [];
  for (const concurrency of CONCURRENCIES) {
    const runs: number[] = [];
    for (let run = 0; run < RUNS; run++) {
      const startedAt = performance.now();
      await Promise.all(Array.from({ length: concurrency }, (_, index) => answer(engine, index)));
      runs.push((1000 * concurrency * OUTPUT_TOKENS) / (performance.now() - startedAt));
    }
    measured.push(median(runs));
  }
  return measured;
}

async function answer(engine: InferenceEngine, seed: number): Promise<void> {
  const { vocabSize } = engine.info;
  const tokenIds = Array.from(
    { length: PROMPT_TOKENS },
    (_, index) => (seed * 7919 + index * 104729) % vocabSize,
  );
  const params = resolveSamplingParams({ temperature: 1, seed, max_tokens: OUTPUT_TOKENS, ignore_eos: true });
  const request = await engine.prepare({ tokenIds }, params);
  for await (const delta of engine.generate(request)) if (delta.finish_reason !== null) return;
}
