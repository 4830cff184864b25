// Many requests at once on the 0.5B shape: throughput by concurrency, how much of the wall clock the kernels get, and
// what one token costs the main thread and the engine thread.

import type { InferenceEngine } from '../src/engine/inference-engine.ts';
import { resolveSamplingParams } from '../src/sampling/sampling-params.ts';
import { withRandomEngines } from './random-engine.ts';
import type { Figure, Section } from './report.ts';
import { cpuSince, threadTimes } from './thread-cpu.ts';

const PROMPT_TOKENS = 128;
const OUTPUT_TOKENS = 128;
const CONCURRENCIES = [1, 4, 8, 16, 32, 64];
const CONFIG = { maxModelLen: 512, enablePrefixCaching: false, kvCacheMemoryBytes: 2 ** 30 };

export async function throughputSection(): Promise<Section> {
  const figures = await withRandomEngines('qwen2.5-0.5b', [CONFIG], async (engine) => {
    const measured: Figure[] = [];
    for (const concurrency of CONCURRENCIES) measured.push(...(await measure(engine, concurrency)));
    return measured;
  });
  return {
    title: `Throughput, qwen2.5-0.5b, ${PROMPT_TOKENS} tokens in, ${OUTPUT_TOKENS} out`,
    figures: figures.flat(),
    notes: [
      'Kernels: time in which ops ran, divided by the wall clock; the rest is what they waited for the engine. Threads: ' +
        'their CPU time divided by the output tokens; what the engine thread does, it does while kernels run.',
    ],
  };
}

async function measure(engine: InferenceEngine, concurrency: number): Promise<Figure[]> {
  const busyBefore = await busySeconds(engine);
  const cpuBefore = threadTimes(process.pid);
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: concurrency }, (_, index) => run(engine, index)));
  const seconds = (performance.now() - startedAt) / 1000;
  const cpu = cpuSince(cpuBefore, process.pid);
  const busy = (await busySeconds(engine)) - busyBefore;
  const outputTokens = concurrency * OUTPUT_TOKENS;
  const name = `${concurrency} at once`;
  const watched = { limit: null, goal: null };
  const perToken = (what: string, value: number): Figure => ({
    name: `${name}: ${what}`,
    value: (1e6 * value) / outputTokens,
    unit: 'us/token',
    ...watched,
  });
  const goal = concurrency === 16 ? '>= 97 %' : null;
  return [
    { name: `${name}: output`, value: outputTokens / seconds, unit: 'tokens/s', ...watched },
    { name: `${name}: kernels`, value: (100 * busy) / seconds, unit: '% of the time', limit: 100, goal },
    perToken('main thread', cpu.main),
    perToken('engine thread', cpu.engine),
    perToken("runtime's helpers", cpu.helpers),
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
  const request = await engine.prepare({ tokenIds }, params);
  for await (const delta of engine.generate(request)) if (delta.finish_reason !== null) return;
}
