// Pipeline stages: two of one thread each beside one engine of two threads, on random weights in the shape of a real model. Half of
// the layers have half of the threads, so nothing is won on one node; what is lost is what stages wait for each other.

import type { EngineConfig } from '../src/config/engine-config.ts';
import type { InferenceEngine } from '../src/engine/inference-engine.ts';
import { resolveSamplingParams } from '../src/sampling/sampling-params.ts';
import { withRandomEngines } from './random-engine.ts';
import type { RandomModelShape } from './random-model.ts';
import { figureOf, median, type Section } from './report.ts';

const SHAPE: RandomModelShape = 'qwen2.5-0.5b';
const COMMON = { maxModelLen: 4096, enablePrefixCaching: false, kvCacheMemoryBytes: 2 ** 30, numThreads: 2 };
const CONFIGS: readonly Partial<EngineConfig>[] = [COMMON, { ...COMMON, pipelineParallelSize: 2 }];
const ROUNDS = 3;

/** So many requests at once, of so many tokens in and out. */
interface Load {
  readonly name: string;
  readonly count: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Of two stages, to one engine. */
  readonly goal: string | null;
}

const LOADS: readonly Load[] = [
  { name: '16 at once, 32 in and 64 out', count: 16, promptTokens: 32, outputTokens: 64, goal: null },
  { name: '8 prompts of 256', count: 8, promptTokens: 256, outputTokens: 1, goal: '>= 0.9' },
  { name: 'one prompt of 1024', count: 1, promptTokens: 1024, outputTokens: 1, goal: null },
  { name: 'one at a time, 64 out', count: 1, promptTokens: 16, outputTokens: 64, goal: null },
];

export async function stagesSection(): Promise<Section> {
  const [whole, staged] = await withRandomEngines(SHAPE, CONFIGS, measureLoads);
  const figures = LOADS.flatMap(({ name, goal }, index) => {
    const [one, two] = [whole![index]!, staged![index]!];
    return [
      figureOf(`${name}: one engine of two threads`, one, 'tokens/s'),
      figureOf(`${name}: two stages of one thread`, two, 'tokens/s'),
      figureOf(`${name}: stages to one engine`, two / one, 'x', goal),
    ];
  });
  return {
    title: `Pipeline stages, ${SHAPE} in bf16, random weights`,
    figures,
    notes: [
      `Tokens in and out, all requests together; median of ${ROUNDS} rounds. One sequence is in one stage at a time: a single request ` +
        'keeps half of the threads busy, and a single prompt is cut in pieces for it.',
    ],
  };
}

async function measureLoads(engine: InferenceEngine): Promise<number[]> {
  const rates: number[] = [];
  for (const load of LOADS) {
    await rateOf(engine, load, 0);
    const rounds: number[] = [];
    for (let round = 1; round <= ROUNDS; round += 1) rounds.push(await rateOf(engine, load, round));
    rates.push(median(rounds));
  }
  return rates;
}

async function rateOf(engine: InferenceEngine, load: Load, seed: number): Promise<number> {
  const { count, promptTokens, outputTokens } = load;
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: count }, (_, index) => run(engine, load, seed * count + index)));
  return (1000 * count * (promptTokens + outputTokens)) / (performance.now() - startedAt);
}

async function run(
  engine: InferenceEngine,
  { promptTokens, outputTokens }: Load,
  seed: number,
): Promise<void> {
  const { vocabSize } = engine.info;
  const tokenIds = Array.from(
    { length: promptTokens },
    (_, index) => (seed * 7919 + index * 104729) % vocabSize,
  );
  const params = resolveSamplingParams({ temperature: 1, seed, max_tokens: outputTokens, ignore_eos: true });
  const request = await engine.prepare({ tokenIds }, params);
  for await (const delta of engine.generate(request)) if (delta.finish_reason !== null) return;
}
