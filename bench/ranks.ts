// Two ranks with half the threads each, beside one rank with all of them; and what it costs one rank that ranks would have its bits: sums
// of eight segments. On one NUMA node ranks can gain nothing.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineConfig } from '../src/config/engine-config.ts';
import type { EngineCore } from '../src/engine/engine-core.ts';
import { loadNative } from '../src/native/native.ts';
import { NativeOps } from '../src/ops/native/native-ops.ts';
import { measureDecode, measurePrefill, PREFILL_TOKENS, startCore } from './engine.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const SHAPES: readonly RandomModelShape[] = ['qwen2.5-0.5b', 'llama-3.2-1b'];
const RUNS = 5;
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
  const figures: Figure[] = [];
  for (const shape of SHAPES) {
    const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
    try {
      writeRandomModel(folder, shape);
      figures.push(...(await measureShape(shape, { modelPath: folder, quantization: null, numThreads })));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  return {
    title: `Ranks, bf16, random weights, ${numThreads} threads in all`,
    figures,
    notes: [
      `Limit of two ranks: one rank in the same sitting, turn by turn; the run of the median ratio of ${RUNS} is shown. Memory: that of one rank, ` +
        'divided by two. One segment: each sum over k in one chain, as no engine computes it; its limit are the sums of eight segments that all do.',
    ],
  };
}

type BenchConfig = Pick<EngineConfig, 'modelPath' | 'quantization' | 'numThreads'>;

async function measureShape(shape: RandomModelShape, config: BenchConfig): Promise<Figure[]> {
  const one = await startCore(config);
  const figures: Figure[] = [];
  try {
    const two = await startCore({ ...config, tensorParallelSize: 2 });
    figures.push(
      ...WORKS.map((work) => beside(`${shape}, two ranks: ${work.name}`, work, two, one, '>= 90 %')),
    );
    figures.push(memoryOf(shape, two, one));
    two.close();
    const whole = await withoutSegments(() => startCore(config));
    figures.push(
      ...WORKS.map((work) => beside(`${shape}, one segment: ${work.name}`, work, whole, one, '<= 102 %')),
    );
    whole.close();
  } finally {
    one.close();
  }
  return figures;
}

function beside(
  name: string,
  { numTokens, seconds }: Work,
  core: EngineCore,
  other: EngineCore,
  goal: string,
): Figure {
  const runs = Array.from({ length: RUNS }, () => ({ own: seconds(core), other: seconds(other) }));
  const ratio = median(runs.map((run) => run.other / run.own));
  const run = runs.find((each) => each.other / each.own === ratio)!;
  return { name, value: numTokens / run.own, unit: 'tokens/s', limit: numTokens / run.other, goal };
}

function memoryOf(shape: RandomModelShape, two: EngineCore, one: EngineCore): Figure {
  const bytes = Math.max(...two.executor.info.ranks.map(({ weightBytes }) => weightBytes));
  const whole = one.executor.info.weightBytes;
  return {
    name: `${shape}, two ranks: weights of each`,
    value: bytes / MIB,
    unit: 'MiB',
    limit: whole / 2 / MIB,
    goal: null,
  };
}

/** Weights that are loaded meanwhile sum over all of k in one chain. */
async function withoutSegments<T>(load: () => Promise<T>): Promise<T> {
  const { loadLinear } = NativeOps.prototype;
  NativeOps.prototype.loadLinear = function (parts, format) {
    return loadLinear.call(this, parts, format, 1);
  };
  try {
    return await load();
  } finally {
    NativeOps.prototype.loadLinear = loadLinear;
  }
}
