// Speed of the engine's own steps, in this process: prefill of 512 tokens, decode of 1 and of 16 sequences, on
// random weights in the shapes of two real models, in bf16, int8 or int4.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import { saltKeys } from '../src/kv-cache/prefix-hash.ts';
import { readModelConfig } from '../src/models/registry.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import {
  type BenchFormat,
  BYTES_PER_WEIGHT,
  type MachineLimits,
  measureMachine,
  operationsPerSecond,
  weightBytesPerSecond,
} from './machine.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const PREFILL_TOKENS = 512;
const DECODE_PROMPT_TOKENS = 32;
const DECODE_STEPS = 40;
const PREFILL_RUNS = 5;

const MODELS: readonly { readonly shape: RandomModelShape; readonly prefillGoal: string | null }[] = [
  { shape: 'qwen2.5-0.5b', prefillGoal: '>= 950 tokens/s (with AMX)' },
  { shape: 'llama-3.2-1b', prefillGoal: null },
];

interface ModelSpeed {
  readonly weightBytes: number;
  /** Of the linear layers of one token, the output head aside. */
  readonly flopsPerToken: number;
  readonly prefillSeconds: number;
  /** Seconds of a decode step, by the number of sequences. */
  readonly decodeSeconds: ReadonlyMap<number, number>;
}

export function engineSection(limits: MachineLimits): Promise<Section> {
  return stepSpeeds(limits, 'bf16');
}

export function int8EngineSection(limits: MachineLimits): Promise<Section> {
  return stepSpeeds(limits, 'int8');
}

export function int4EngineSection(limits: MachineLimits): Promise<Section> {
  return stepSpeeds(limits, 'int4');
}

async function stepSpeeds(before: MachineLimits, format: BenchFormat): Promise<Section> {
  const figures: Figure[] = [];
  let limits = before;
  for (const { shape, prefillGoal } of MODELS) {
    const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
    try {
      writeRandomModel(folder, shape);
      const speed = await measureModel(folder, format);
      // Measured again beside each model, since a shared machine's limits change within minutes; the better counts.
      limits = better(limits, measureMachine());
      figures.push(...describe(shape, format, speed, limits, prefillGoal));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  return {
    title: `Engine steps, ${format}, random weights`,
    figures,
    notes: [
      'Prefill limit: the matrix unit doing nothing but the multiply-adds of the linear layers. Decode: bytes of ' +
        'weights a step divided by its time, against the speed of plain memory reads. With 16 rows each weight takes ' +
        '32 operations: without AMX the multiply-adds, not the memory, set the pace; the second line of each is held ' +
        'against the slower of the two.',
    ],
  };
}

function better(a: MachineLimits, b: MachineLimits): MachineLimits {
  return {
    ...a,
    memoryReadBytesPerSecond: Math.max(a.memoryReadBytesPerSecond, b.memoryReadBytesPerSecond),
    matrixFlops: Math.max(a.matrixFlops, b.matrixFlops),
    int8Ops: Math.max(a.int8Ops, b.int8Ops),
  };
}

async function measureModel(modelPath: string, format: BenchFormat): Promise<ModelSpeed> {
  const quantization = format === 'bf16' ? null : format;
  const config = { ...ENGINE_DEFAULTS, modelPath, quantization, maxModelLen: 2048, maxNumSeqs: 16 };
  const core = await EngineCore.start({ ...config, kvCacheMemoryBytes: 2 ** 30 });
  try {
    const { weightBytes, vocabSize } = core.executor.info;
    const ids = (length: number, start: number): number[] =>
      Array.from({ length }, (_, index) => (start + 7919 * index) % vocabSize);
    const { hiddenSize } = readModelConfig(openModelSource(modelPath));
    // The head of a model in int4 is kept in int8.
    const headBytes = vocabSize * hiddenSize * BYTES_PER_WEIGHT[format === 'int4' ? 'int8' : format];
    const flopsPerToken = (2 * (weightBytes - headBytes)) / BYTES_PER_WEIGHT[format];
    const prefillSeconds = measurePrefill(core, ids);
    const decodeSeconds = new Map([1, 16].map((count) => [count, measureDecode(core, count, ids)]));
    return { weightBytes, flopsPerToken, prefillSeconds, decodeSeconds };
  } finally {
    core.close();
  }
}

function describe(
  shape: RandomModelShape,
  format: BenchFormat,
  speed: ModelSpeed,
  limits: MachineLimits,
  prefillGoal: string | null,
): Figure[] {
  const prefill: Figure = {
    name: `${shape}: prefill of ${PREFILL_TOKENS} tokens`,
    value: PREFILL_TOKENS / speed.prefillSeconds,
    unit: 'tokens/s',
    limit: operationsPerSecond(limits, format) / speed.flopsPerToken,
    goal: format === 'bf16' ? prefillGoal : '>= 75 %',
  };
  const decodes = [...speed.decodeSeconds].flatMap(([rows, seconds]): Figure[] => {
    const name = `${shape}: decode step of ${rows} (${(rows / seconds).toFixed(1)} tokens/s)`;
    const figure = { value: speed.weightBytes / seconds / 1e9, unit: 'GB/s' };
    return [
      {
        ...figure,
        name: `${name}, against memory reads`,
        limit: limits.memoryReadBytesPerSecond / 1e9,
        goal: format === 'int8' ? '>= 85 %' : '>= 75 %',
      },
      {
        ...figure,
        name: `${name}, against memory or arithmetic`,
        limit: weightBytesPerSecond(limits, rows, format) / 1e9,
        goal: null,
      },
    ];
  });
  return [prefill, ...decodes];
}

/** Seconds of the step that computes a whole prompt and samples its first token. */
function measurePrefill(core: EngineCore, ids: (length: number, start: number) => number[]): number {
  const seconds: number[] = [];
  for (let run = 0; run < PREFILL_RUNS; run += 1) {
    addRequest(core, run, ids(PREFILL_TOKENS, run), 1);
    seconds.push(timeSteps(core, () => !core.hasUnfinished));
  }
  return median(seconds);
}

/** Median seconds of a step in which `numSequences` sequences each get one token. */
function measureDecode(
  core: EngineCore,
  numSequences: number,
  ids: (length: number, start: number) => number[],
): number {
  for (let index = 0; index < numSequences; index += 1) {
    addRequest(core, index, ids(DECODE_PROMPT_TOKENS, index), DECODE_STEPS + 1);
  }
  core.step();
  const seconds: number[] = [];
  // Each call launches a step and waits for the one before.
  while (core.hasUnfinished) seconds.push(timeSteps(core, () => true));
  return median(seconds);
}

/** Each has a salt of its own: the prefix cache saves none of them work. */
let numRequests = 0;

function addRequest(
  core: EngineCore,
  id: number,
  promptTokenIds: readonly number[],
  maxTokens: number,
): void {
  core.scheduler.add({
    id,
    promptTokenIds,
    resumedTokenIds: [],
    transfer: null,
    priority: 0,
    caller: 0,
    group: 0,
    extraKeys: saltKeys(`${numRequests++}`),
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, sample: 0, numLogprobs: null },
    rules: null,
    numPromptLogprobs: null,
    stop: { eosTokenId: null, stopTokenIds: [], minTokens: 0, maxTokens },
  });
}

function timeSteps(core: EngineCore, isEnough: () => boolean): number {
  const startedAt = performance.now();
  do core.step();
  while (!isEnough());
  return (performance.now() - startedAt) / 1000;
}
