// Speed of a whole model with made-up weights, as the engine computes it.

import type { EngineCore } from '../../src/engine/engine-core.ts';
import { median } from '../report.ts';
import { addSequence, computedTokens, STEP_TOKENS, startMadeUpModel } from './made-up-model.ts';
import { measured, type Result } from './result.ts';

/** Goals in tokens a second: shares of what one H100 allows. */
export interface Goals {
  readonly prefill?: number;
  readonly decode: Readonly<Record<number, number>>;
}

/**
 * What is computed: tokens before each sequence, how many sequences at once, decode steps of each. Before all that, steps which nobody times, in which
 * JavaScript's compiler makes machine code of what a step calls.
 */
export interface Workload {
  readonly context: number;
  readonly sequences: readonly number[];
  readonly steps: number;
  readonly warmSteps: number;
}

const BLOCK_SIZE = 16;

/** Measures the model of a folder with a config.json. Sequences that an earlier number of them had are found in the prefix cache. */
export async function* measureModel(
  name: string,
  modelPath: string,
  { context, sequences, steps, warmSteps }: Workload,
  goals: Goals,
): AsyncGenerator<Result> {
  const most = Math.max(...sequences);
  const startedAt = performance.now();
  const core = await startMadeUpModel(modelPath, {
    blockSize: BLOCK_SIZE,
    maxModelLen: 2 * context + steps,
    maxNumSeqs: most,
  });
  try {
    yield measured(`${name}: start`, (performance.now() - startedAt) / 1000, 's');
    warmUp(core, most, warmSteps);
    const prompts = Math.ceil(most / 4);
    yield measured(`${name}: prefill`, prefill(core, prompts, context), 'tokens/s', {
      goal: goals.prefill ?? null,
    });
    for (const count of sequences) {
      const before = computedTokens(core);
      const prompted = fill(core, count, { context, steps });
      const tokens = computedTokens(core) - before;
      if (count === most) {
        const note = `of ${tokens} tokens`;
        yield measured(`${name}: prefill beside decode`, tokens / prompted, 'tokens/s', { note });
      }
      const goal = goals.decode[count] ?? null;
      const { seconds, processorSeconds } = decode(core, count);
      const note = `${(1000 * processorSeconds).toFixed(2)} ms of the processor a step`;
      yield measured(`${name}: decode of ${count}`, count / seconds, 'tokens/s', { goal, note });
    }
  } finally {
    core.close();
  }
}

/** A sequence with a prompt of its own. */
function warmUp(core: EngineCore, prompt: number, steps: number): void {
  addSequence(core, { id: 0, prompt, promptTokens: BLOCK_SIZE, maxTokens: steps });
  while (core.hasUnfinished) core.step();
}

/** Tokens a second of prompts alone: their sequences end with the first token. */
function prefill(core: EngineCore, count: number, context: number): number {
  for (let id = 0; id < count; id += 1) {
    addSequence(core, { id, prompt: id, promptTokens: context, maxTokens: 1 });
  }
  const startedAt = performance.now();
  while (core.hasUnfinished) core.step();
  return (count * context) / ((performance.now() - startedAt) / 1000);
}

/** Adds the sequences and computes their prompts. @returns the seconds that it took. */
function fill(
  core: EngineCore,
  count: number,
  { context, steps }: { context: number; steps: number },
): number {
  // The first ones get tokens while the last ones' prompts are computed.
  const maxTokens = steps + Math.ceil((count * context) / STEP_TOKENS);
  for (let id = 0; id < count; id += 1) {
    addSequence(core, { id, prompt: id, promptTokens: context, maxTokens });
  }
  const wanted = core.stats.promptTokens + count * context;
  const startedAt = performance.now();
  do core.step();
  while (core.stats.promptTokens < wanted);
  return (performance.now() - startedAt) / 1000;
}

/** Of a step in which every sequence gets a token: each call launches one and waits for the one before. */
function decode(core: EngineCore, count: number): { seconds: number; processorSeconds: number } {
  const seconds: number[] = [];
  const processorSeconds: number[] = [];
  while (core.hasUnfinished) {
    const isWhole = core.stats.running === count;
    const [startedAt, before] = [performance.now(), process.cpuUsage()];
    core.step();
    if (!isWhole) continue;
    seconds.push((performance.now() - startedAt) / 1000);
    const { user, system } = process.cpuUsage(before);
    processorSeconds.push((user + system) / 1e6);
  }
  return { seconds: median(seconds), processorSeconds: median(processorSeconds) };
}
