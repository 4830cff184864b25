// Speed of a whole model with made-up weights, as the engine computes it.

import { EngineCore } from '../../src/engine/engine-core.ts';
import { ENGINE_DEFAULTS } from '../../test/helpers/engine-defaults.ts';
import { newRequest } from '../../test/helpers/new-request.ts';
import { median } from '../report.ts';
import { measured, type Result } from './result.ts';

/** Goals in tokens a second: shares of what one H100 allows. */
export interface Goals {
  readonly prefill?: number;
  readonly decode: Readonly<Record<number, number>>;
}

/** What is computed: tokens before each sequence, how many sequences at once, decode steps of each. */
export interface Workload {
  readonly context: number;
  readonly sequences: readonly number[];
  readonly steps: number;
}

const BLOCK_SIZE = 16;

/** Measures the model of a folder with a config.json. Sequences that an earlier number of them had are found in the prefix cache. */
export async function* measureModel(
  name: string,
  modelPath: string,
  { context, sequences, steps }: Workload,
  goals: Goals,
): AsyncGenerator<Result> {
  const most = Math.max(...sequences);
  const startedAt = performance.now();
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath,
    loadFormat: 'dummy',
    device: 'cuda',
    dtype: 'bfloat16',
    skipTokenizerInit: true,
    blockSize: BLOCK_SIZE,
    maxModelLen: 2 * context + steps,
    maxNumSeqs: most,
  });
  try {
    yield measured(`${name}: start`, (performance.now() - startedAt) / 1000, 's');
    for (const count of sequences) {
      const before = computedTokens(core);
      const prompted = fill(core, count, { context, steps });
      const tokens = computedTokens(core) - before;
      if (count === most) {
        const goal = goals.prefill ?? null;
        yield measured(`${name}: prefill`, tokens / prompted, 'tokens/s', { goal, note: `${tokens} tokens` });
      }
      const goal = goals.decode[count] ?? null;
      yield measured(`${name}: decode of ${count}`, count / decodeSeconds(core, count), 'tokens/s', { goal });
    }
  } finally {
    core.close();
  }
}

/** Of prompts, those that were found in the prefix cache aside. */
function computedTokens({ stats }: EngineCore): number {
  return stats.promptTokens - stats.cachedPromptTokens;
}

/** Adds the sequences and computes their prompts. @returns the seconds that it took. */
function fill(
  core: EngineCore,
  count: number,
  { context, steps }: { context: number; steps: number },
): number {
  const { vocabSize } = core.executor.info;
  // The first ones get tokens while the last ones' prompts are computed.
  const maxTokens = steps + Math.ceil((count * context) / ENGINE_DEFAULTS.maxNumBatchedTokens);
  for (let id = 0; id < count; id += 1) {
    const promptTokenIds = Array.from(
      { length: context },
      (_, at) => (7919 * at + 104729 * id + 3) % vocabSize,
    );
    core.scheduler.add(
      newRequest({ id, promptTokenIds, stop: { stopTokenIds: [], minTokens: 0, maxTokens } }),
    );
  }
  const wanted = core.stats.promptTokens + count * context;
  const startedAt = performance.now();
  do core.step();
  while (core.stats.promptTokens < wanted);
  return (performance.now() - startedAt) / 1000;
}

/** Of a step in which every sequence gets a token: each call launches one and waits for the one before. */
function decodeSeconds(core: EngineCore, count: number): number {
  const seconds: number[] = [];
  while (core.hasUnfinished) {
    const isWhole = core.stats.running === count;
    const startedAt = performance.now();
    core.step();
    if (isWhole) seconds.push((performance.now() - startedAt) / 1000);
  }
  return median(seconds);
}
