// Speed of the engine's own steps, in this process: prefill of 512 tokens, decode of 1 and of 16 sequences, on
// random weights in the shapes of two real models.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ENGINE_DEFAULTS } from '../src/config/engine-config.ts';
import { EngineCore } from '../src/engine/engine-core.ts';
import { readModelConfig } from '../src/models/model-config.ts';
import { type MachineLimits, measureMachine } from './machine.ts';
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

export async function engineSection(): Promise<Section> {
  const figures: Figure[] = [];
  for (const { shape, prefillGoal } of MODELS) {
    const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
    try {
      writeRandomModel(folder, shape);
      // Measured again beside each model: a shared machine's limits change within minutes.
      figures.push(...(await measureModel(folder, shape, prefillGoal, measureMachine())));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  return {
    title: 'Engine steps, bf16, random weights',
    figures,
    notes: [
      'Prefill limit: the matrix unit doing nothing but the multiply-adds of the linear layers. Decode: bytes of ' +
        'weights a step divided by its time, against the speed of plain memory reads at that moment. With 16 rows ' +
        'each weight takes 32 operations: without AMX the multiply-adds, not the memory, set the pace (16 bf16 ' +
        'operations a byte: 470 GFLOP/s are 29 GB/s).',
    ],
  };
}

async function measureModel(
  modelPath: string,
  shape: RandomModelShape,
  prefillGoal: string | null,
  limits: MachineLimits,
): Promise<Figure[]> {
  const core = await EngineCore.start(
    { ...ENGINE_DEFAULTS, modelPath, maxModelLen: 2048, maxNumSeqs: 16, kvCacheMemoryBytes: 2 ** 30 },
    () => {},
  );
  try {
    const { weightBytes, vocabSize } = core.info;
    const ids = (length: number, start: number): number[] =>
      Array.from({ length }, (_, index) => (start + 7919 * index) % vocabSize);
    const prefillSeconds = measurePrefill(core, ids);
    const figures: Figure[] = [
      {
        name: `${shape}: prefill of ${PREFILL_TOKENS} tokens`,
        value: PREFILL_TOKENS / prefillSeconds,
        unit: 'tokens/s',
        // Two operations a weight of two bytes: one a byte and token, the head aside, which sees one token only.
        limit: limits.matrixFlops / (weightBytes - 2 * vocabSize * readModelConfig(modelPath).hiddenSize),
        goal: prefillGoal,
      },
    ];
    for (const numSequences of [1, 16]) {
      const seconds = measureDecode(core, numSequences, ids);
      figures.push({
        name: `${shape}: decode step of ${numSequences}, weight bytes (${(numSequences / seconds).toFixed(1)} tokens/s)`,
        value: weightBytes / seconds / 1e9,
        unit: 'GB/s',
        limit: limits.memoryReadBytesPerSecond / 1e9,
        goal: '>= 75 % of memory read speed',
      });
    }
    return figures;
  } finally {
    core.close();
  }
}

/** Seconds of the one step that computes a whole prompt and samples its first token. */
function measurePrefill(core: EngineCore, ids: (length: number, start: number) => number[]): number {
  const seconds: number[] = [];
  for (let run = 0; run < PREFILL_RUNS; run += 1) {
    addRequest(core, run, ids(PREFILL_TOKENS, run), 1);
    seconds.push(timeStep(core));
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
  while (core.hasUnfinished) seconds.push(timeStep(core));
  return median(seconds);
}

function addRequest(
  core: EngineCore,
  id: number,
  promptTokenIds: readonly number[],
  maxTokens: number,
): void {
  core.add({
    id,
    promptTokenIds,
    priority: 0,
    cacheSalt: null,
    mayReadCache: false,
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, sample: 0, numLogprobs: null },
    rules: null,
    numPromptLogprobs: null,
    stop: { eosTokenId: null, stopTokenIds: [], minTokens: 0, maxTokens },
  });
}

function timeStep(core: EngineCore): number {
  const startedAt = performance.now();
  core.step();
  return (performance.now() - startedAt) / 1000;
}
