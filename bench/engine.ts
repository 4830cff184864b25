// Speed of the engine's own steps, in this process: prefill of 512 tokens, decode of 1 and of 16 sequences, on
// random weights in the shapes of two real models, in bf16, int8, fp8, int4 or the formats of GGUF.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineConfig } from '../src/config/engine-config.ts';
import { EngineCore } from '../src/engine/engine-core.ts';
import { saltKeys } from '../src/kv-cache/prefix-hash.ts';
import { readModelConfig } from '../src/models/registry.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { LimitProbe } from './beside.ts';
import { type BenchFormat, BYTES_PER_WEIGHT, type SpeedLimits, weightBytesPerSecond } from './machine.ts';
import { writeRandomGguf } from './random-gguf.ts';
import { type RandomModelShape, writeConfig, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

export const PREFILL_TOKENS = 512;
const DECODE_PROMPT_TOKENS = 32;
const DECODE_STEPS = 40;

const MODELS: readonly { readonly shape: RandomModelShape; readonly prefillGoal: string | null }[] = [
  { shape: 'qwen2.5-0.5b', prefillGoal: '>= 950 tokens/s (with AMX)' },
  { shape: 'llama-3.2-1b', prefillGoal: null },
];

/** Of the same shapes in the formats of a file that is called Q4_K_M: their decode steps. */
export async function ggufEngineSection(): Promise<Section> {
  const figures = await forModels(async (shape, folder, probe) => {
    const path = join(folder, 'model.gguf');
    writeConfig(folder, shape);
    writeRandomGguf(folder, path, shape);
    const core = await startCore({ modelPath: path, quantization: null });
    try {
      return [1, 16].map((rows) => memoryFigure(core, { shape, format: 'int4' }, rows, probe));
    } finally {
      core.close();
    }
  });
  return {
    title: 'Engine steps, Q4_K_M, random weights',
    figures,
    notes: [
      'Blocks of GGUF, kept as their codes: Q4_K and Q6_K, and with rows of 896 numbers, which are no whole blocks of those, Q5_0 ' +
        'and Q8_0, as in published files. To be read beside the decode steps in bf16 and int4: the same shapes, other bytes a weight.',
    ],
  };
}

async function forModels(
  measure: (shape: RandomModelShape, folder: string, probe: LimitProbe) => Promise<Figure[]>,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { shape } of MODELS) {
    const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
    const probe = new LimitProbe();
    try {
      figures.push(...(await measure(shape, folder, probe)));
    } finally {
      probe.close();
      rmSync(folder, { recursive: true });
    }
  }
  return figures;
}

export async function engineSection(format: EngineFormat): Promise<Section> {
  const figures = await forModels((shape, folder, probe) => {
    writeRandomModel(folder, shape);
    const { prefillGoal } = MODELS.find((model) => model.shape === shape)!;
    return measureModel({ shape, folder, format, prefillGoal }, probe);
  });
  return {
    title: `Engine steps, ${format}, random weights`,
    figures,
    notes: [
      'Prefill limit: the matrix unit doing nothing but the multiply-adds of the linear layers. Decode: bytes of ' +
        'weights a step divided by its time, against the speed of plain memory reads. With 16 rows each weight takes ' +
        '32 operations: without AMX the multiply-adds, not the memory, set the pace; the second line of each is held ' +
        'against the slower of the two. Limits are measured before and after each of five runs; the run of the median ' +
        'ratio is shown.',
    ],
  };
}

type EngineFormat = Exclude<BenchFormat, 'ternary'>;

interface BenchModel {
  readonly shape: RandomModelShape;
  readonly folder: string;
  readonly format: EngineFormat;
  readonly prefillGoal: string | null;
}

async function measureModel(model: BenchModel, probe: LimitProbe): Promise<Figure[]> {
  const { folder, format } = model;
  const quantization = format === 'bf16' ? null : format;
  const core = await startCore({ modelPath: folder, quantization });
  try {
    return [
      prefillFigure(core, model, probe),
      ...[1, 16].flatMap((rows) => decodeFigures(core, model, rows, probe)),
    ];
  } finally {
    core.close();
  }
}

/** For the sequences and contexts that are measured here. */
export function startCore(
  model: Pick<EngineConfig, 'modelPath' | 'quantization'> & Partial<EngineConfig>,
): Promise<EngineCore> {
  const config = { ...ENGINE_DEFAULTS, ...model, maxModelLen: 2048, maxNumSeqs: 16 };
  return EngineCore.start({ ...config, kvCacheMemoryBytes: 2 ** 30 });
}

function prefillFigure(
  core: EngineCore,
  { shape, folder, format, prefillGoal }: BenchModel,
  probe: LimitProbe,
): Figure {
  const { weightBytes, vocabSize } = core.executor.info;
  const { hiddenSize } = readModelConfig(openModelSource(folder));
  // The head of a quantised model is kept in int8.
  const headBytes = vocabSize * hiddenSize * BYTES_PER_WEIGHT[format === 'bf16' ? format : 'int8'];
  // Of the linear layers of one token, the output head aside.
  const flopsPerToken = (2 * (weightBytes - headBytes)) / BYTES_PER_WEIGHT[format];
  const held = probe.hold(
    format,
    () => PREFILL_TOKENS / measurePrefill(core),
    (limits) => limits.operationsPerSecond / flopsPerToken,
  );
  const goal = format === 'bf16' ? prefillGoal : '>= 75 %';
  return { name: `${shape}: prefill of ${PREFILL_TOKENS} tokens`, ...held, unit: 'tokens/s', goal };
}

type DecodeModel = Pick<BenchModel, 'shape' | 'format'>;

function decodeFigures(core: EngineCore, model: DecodeModel, rows: number, probe: LimitProbe): Figure[] {
  const limitOf = (limits: SpeedLimits): number => weightBytesPerSecond(limits, rows, model.format);
  return [
    memoryFigure(core, model, rows, probe),
    decodeFigure(core, model, rows, probe, { against: 'memory or arithmetic', limitOf, goal: null }),
  ];
}

function memoryFigure(core: EngineCore, model: DecodeModel, rows: number, probe: LimitProbe): Figure {
  return decodeFigure(core, model, rows, probe, {
    against: 'memory reads',
    limitOf: (limits) => limits.readBytesPerSecond,
    goal: model.format === 'int8' ? '>= 85 %' : '>= 75 %',
  });
}

interface HeldAgainst {
  readonly against: string;
  readonly limitOf: (limits: SpeedLimits) => number;
  readonly goal: string | null;
}

function decodeFigure(
  core: EngineCore,
  { shape, format }: DecodeModel,
  rows: number,
  probe: LimitProbe,
  { against, limitOf, goal }: HeldAgainst,
): Figure {
  const { weightBytes } = core.executor.info;
  const held = probe.hold(
    format,
    () => weightBytes / measureDecode(core, rows) / 1e9,
    (limits) => limitOf(limits) / 1e9,
  );
  const tokens = ((held.value * 1e9 * rows) / weightBytes).toFixed(1);
  const name = `${shape}: decode step of ${rows} (${tokens} tokens/s), against ${against}`;
  return { name, ...held, unit: 'GB/s', goal };
}

/** Token ids of a prompt, other ones for each `start`. */
function prompt(core: EngineCore, length: number, start: number): number[] {
  const { vocabSize } = core.executor.info;
  return Array.from({ length }, (_, index) => (start + 7919 * index) % vocabSize);
}

/** Seconds of the step that computes a whole prompt and samples its first token. */
export function measurePrefill(core: EngineCore, adapterId: number | null = null): number {
  addRequest(core, numRequests, prompt(core, PREFILL_TOKENS, numRequests), 1, adapterId);
  return timeSteps(core, () => !core.hasUnfinished);
}

/** Median seconds of a step in which `numSequences` sequences each get one token. */
export function measureDecode(
  core: EngineCore,
  numSequences: number,
  adapterOf: (index: number) => number | null = () => null,
): number {
  for (let index = 0; index < numSequences; index += 1) {
    const tokens = prompt(core, DECODE_PROMPT_TOKENS, index);
    addRequest(core, index, tokens, DECODE_STEPS + 1, adapterOf(index));
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
  adapterId: number | null,
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
    adapterId,
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
