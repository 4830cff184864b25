// What adapters cost: steps of the engine in which sequences have one of four adapters, beside the same steps without, in
// turn in one process, on random weights in the shape of a real model.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import { readModelConfig } from '../src/models/registry.ts';
import { openModelSource } from '../src/models/source/model-source.ts';
import { type Projections, writeTinyAdapter } from '../test/fixtures/tiny-adapter.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { measureDecode, measurePrefill, PREFILL_TOKENS } from './engine.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const SHAPE: RandomModelShape = 'qwen2.5-0.5b';
const NUM_ADAPTERS = 4;
const RANK = 16;
const ROUNDS = 5;
const GOAL = '<= 1.15';

export async function loraSection(): Promise<Section> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    return {
      title: `Adapters of rank ${RANK} on all projections, bf16, random weights`,
      figures: await measureModel(folder),
      notes: [
        'Time of a step with adapters, divided by that of the same step without. Sequences have the adapters in turn; the ' +
          `prompt has one. Median of ${ROUNDS} rounds, each of which runs both.`,
      ],
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measureModel(folder: string): Promise<Figure[]> {
  const modelPath = join(folder, 'model');
  writeRandomModel(modelPath, SHAPE);
  const modules = Array.from({ length: NUM_ADAPTERS }, (_, seed) => {
    const path = join(folder, `${seed}`);
    writeTinyAdapter(path, { seed, rank: RANK, ...projectionsOf(modelPath) });
    return { name: `${seed}`, path, baseModelName: null };
  });
  const lora = { modules, maxLoras: NUM_ADAPTERS, maxLoraRank: RANK };
  const config = { ...ENGINE_DEFAULTS, modelPath, maxModelLen: 2048, maxNumSeqs: 64, lora };
  const core = await EngineCore.start({ ...config, kvCacheMemoryBytes: 2 ** 30 });
  const decode = (rows: number) => (hasAdapters: boolean) =>
    measureDecode(core, rows, hasAdapters ? (index) => index % NUM_ADAPTERS : () => null);
  const prefill = (hasAdapters: boolean) => measurePrefill(core, hasAdapters ? 0 : null);
  try {
    return [
      ratio(`${SHAPE}: decode step of 16`, decode(16)),
      ratio(`${SHAPE}: decode step of 64`, decode(64)),
      ratio(`${SHAPE}: prefill of ${PREFILL_TOKENS} tokens`, prefill),
    ];
  } finally {
    core.close();
  }
}

function ratio(name: string, seconds: (hasAdapters: boolean) => number): Figure {
  seconds(true);
  const ratios = Array.from({ length: ROUNDS }, () => seconds(true) / seconds(false));
  return { name, value: median(ratios), unit: 'x', limit: null, goal: GOAL };
}

function projectionsOf(modelPath: string): { layers: number; projections: Projections } {
  const config = readModelConfig(openModelSource(modelPath));
  const { hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, numLayers } = config;
  return {
    layers: numLayers,
    projections: {
      'self_attn.q_proj': [numHeads * headDim, hiddenSize],
      'self_attn.k_proj': [numKvHeads * headDim, hiddenSize],
      'self_attn.v_proj': [numKvHeads * headDim, hiddenSize],
      'self_attn.o_proj': [hiddenSize, numHeads * headDim],
      'mlp.gate_proj': [intermediateSize, hiddenSize],
      'mlp.up_proj': [intermediateSize, hiddenSize],
      'mlp.down_proj': [hiddenSize, intermediateSize],
    },
  };
}
