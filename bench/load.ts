// Many requests at once on the 0.5B shape: throughput by concurrency, how much of the wall clock goes into the forward
// passes, and what one token costs the main thread.

import { readFileSync } from 'node:fs';
import type { InferenceEngine } from '../src/engine/inference-engine.ts';
import { resolveSamplingParams } from '../src/sampling/sampling-params.ts';
import { withRandomEngines } from './random-engine.ts';
import type { Figure, Section } from './report.ts';

const PROMPT_TOKENS = 128;
const OUTPUT_TOKENS = 128;
const CONCURRENCIES = [1, 4, 8, 16, 32, 64];
const CONFIG = { maxModelLen: 512, enablePrefixCaching: false, kvCacheMemoryBytes: 2 ** 30 };

export async function loadSection(): Promise<Section> {
  const figures = await withRandomEngines('qwen2.5-0.5b', [CONFIG], async (engine) => {
    const measured: Figure[] = [];
    for (const concurrency of CONCURRENCIES) measured.push(...(await measure(engine, concurrency)));
    return measured;
  });
  return {
    title: `Throughput, qwen2.5-0.5b, ${PROMPT_TOKENS} tokens in, ${OUTPUT_TOKENS} out`,
    figures: figures.flat(),
    notes: [
      'Forward passes: time in them and in sampling, divided by the wall clock. Main thread: its CPU time divided by ' +
        'the output tokens; what the engine thread does beside the forward passes is the rest of the wall clock.',
    ],
  };
}

async function measure(engine: InferenceEngine, concurrency: number): Promise<Figure[]> {
  const busyBefore = await busySeconds(engine);
  const cpuBefore = threadCpuSeconds();
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrency }, (_, index) => run(engine, index)));
  const seconds = (performance.now() - startedAt) / 1000;
  const cpuSeconds = threadCpuSeconds() - cpuBefore;
  const busy = (await busySeconds(engine)) - busyBefore;
  const outputTokens = concurrency * OUTPUT_TOKENS;
  const name = `${concurrency} at once`;
  const watched = { limit: null, goal: null };
  const micros = (value: number): number => (1e6 * value) / outputTokens;
  const goal = concurrency === 16 ? '>= 97 %' : null;
  return [
    { name: `${name}: output`, value: outputTokens / seconds, unit: 'tokens/s', ...watched },
    {
      name: `${name}: forward passes`,
      value: (100 * busy) / seconds,
      unit: '% of the time',
      limit: 100,
      goal,
    },
    { name: `${name}: main thread`, value: micros(cpuSeconds), unit: 'us/token', ...watched },
    {
      name: `${name}: engine beside passes`,
      value: micros(seconds - busy),
      unit: 'us/token',
      ...watched,
    },
  ];
}

async function busySeconds(engine: InferenceEngine): Promise<number> {
  const { busySeconds: seconds } = await engine.stats();
  if (seconds === null) throw new Error('the share of the kernels needs the native backend');
  return seconds;
}

async function run(engine: InferenceEngine, seed: number): Promise<void> {
  const { vocabSize } = engine.info;
  const tokenIds = Array.from(
    { length: PROMPT_TOKENS },
    (_, index) => (seed * 7919 + index * 104729) % vocabSize,
  );
  const params = resolveSamplingParams({ temperature: 1, seed, max_tokens: OUTPUT_TOKENS, ignore_eos: true });
  const request = await engine.prepare({ prompt: { tokenIds }, params });
  for await (const delta of engine.generate(request)) if (delta.finish_reason !== null) return;
}

/** CPU time of the calling thread; the kernel counts it in nanoseconds. */
function threadCpuSeconds(): number {
  return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e9;
}
