// The time of each kernel, of two layers and the head of two models with made-up weights: alone, and in the graphs of decode steps; then whole steps of the
// smaller one, as they are served.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { LLAMA_8B, QWEN3_06B } from './model-shapes.ts';
import { profileModel } from './profile-model.ts';
import { failed, type Result, report } from './result.ts';
import { timelineOf } from './timeline.ts';
import { traceOf } from './trace.ts';

const LAYERS = 2;
const MODELS = [
  { name: 'Llama-3.1-8B', config: LLAMA_8B, sequences: [1, 64, 256] },
  { name: 'Qwen3-0.6B', config: QWEN3_06B, sequences: [1] },
];
const CONTEXT = 1024;

const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
try {
  for (const { name, config, sequences } of MODELS) {
    writeConfig({ ...config, num_hidden_layers: LAYERS });
    reportAll(`the kernels of ${name}`, () => profileModel(name, folder, { context: CONTEXT, sequences }));
    for (const count of sequences) {
      reportAll(`the graphs of ${name}`, () => traceOf(name, folder, { context: CONTEXT, sequences: count }));
    }
  }
  writeConfig(QWEN3_06B);
  reportAll('steps of Qwen3-0.6B', () => timelineOf('Qwen3-0.6B', folder, CONTEXT, 1));
} finally {
  rmSync(folder, { recursive: true });
}

function writeConfig(config: object): void {
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
}

/** What fails leaves the others. */
function reportAll(what: string, measure: () => Iterable<Result>): void {
  try {
    for (const result of measure()) report(result);
  } catch (error) {
    report(failed(what, error instanceof Error ? error.message : String(error)));
  }
}
