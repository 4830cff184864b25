// Two ranks with half the threads each, beside one rank with all of them. On one NUMA node ranks can gain nothing.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineConfig } from '../src/config/engine-config.ts';
import type { EngineCore } from '../src/engine/engine-core.ts';
import { loadNative } from '../src/native/native.ts';
import { measureDecode, measurePrefill, PREFILL_TOKENS, startCore } from './engine.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const SHAPE: RandomModelShape = 'qwen2.5-0.5b';
const RUNS = 5;
/** Uncounted runs: each rank's thread compiles its JavaScript by itself, which takes some hundred steps. */
const WARM_UP_RUNS = 4;
const MIB = 2 ** 20;

interface Work {
  readonly name: string;
  readonly numTokens: number;
  readonly seconds: (core: EngineCore) => number;
}

const WORKS: readonly Work[] = [
  { name: 'decode of 1', numTokens: 1, seconds: (core) => measureDecode(core, 1) },
  { name: 'decode of 16', numTokens: 16, seconds: (core) => measureDecode(core, 16) },
  {
    name: `prefill of ${PREFILL_TOKENS}`,
    numTokens: PREFILL_TOKENS,
    seconds: (core) => measurePrefill(core),
  },
];

export async function rankSection(): Promise<Section> {
  const numThreads = Math.max(2, loadNative().physicalCores());
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(folder, SHAPE);
    return {
      title: `Ranks, ${SHAPE} in bf16, random weights, ${numThreads} threads in all`,
      figures: await measureRanks({ modelPath: folder, quantization: null, numThreads }),
      notes: [
        `Limit of two ranks: one rank in the same sitting, turn by turn; the run of the median ratio of ${RUNS} is shown, ${WARM_UP_RUNS} ` +
          'before them are not counted. Memory: that of one rank, divided by two.',
      ],
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

type BenchConfig = Pick<EngineConfig, 'modelPath' | 'quantization' | 'numThreads'>;

async function measureRanks(config: BenchConfig): Promise<Figure[]> {
  const one = await startCore(config);
  const figures: Figure[] = [];
  try {
    const two = await startCore({ ...config, tensorParallelSize: 2 });
    figures.push(...WORKS.map((work) => beside(work, two, one)));
    figures.push(memoryOf(two, one));
    two.close();
  } finally {
    one.close();
  }
  return figures;
}

function beside({ name, numTokens, seconds }: Work, two: EngineCore, one: EngineCore): Figure {
  const measure = () => ({ two: seconds(two), one: seconds(one) });
  for (let run = 0; run < WARM_UP_RUNS; run += 1) measure();
  const runs = Array.from({ length: RUNS }, measure);
  const ratio = median(runs.map((run) => run.one / run.two));
  const run = runs.find((each) => each.one / each.two === ratio)!;
  return {
    name: `two ranks: ${name}`,
    value: numTokens / run.two,
    unit: 'tokens/s',
    limit: numTokens / run.one,
    goal: '>= 90 %',
  };
}

function memoryOf(two: EngineCore, one: EngineCore): Figure {
  const bytes = Math.max(...two.executor.info.ranks.map(({ weightBytes }) => weightBytes));
  const whole = one.executor.info.weightBytes;
  return {
    name: 'two ranks: weights of each',
    value: bytes / MIB,
    unit: 'MiB',
    limit: whole / 2 / MIB,
    goal: null,
  };
}
