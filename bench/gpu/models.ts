// Tokens a second of whole models, with made-up weights: prefill, and decode steps of 1, 64 and 256 sequences at 1024 tokens.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Goals, measureModel, type Workload } from './measure-model.ts';
import { LLAMA_8B, QWEN3_06B } from './model-shapes.ts';
import { report } from './result.ts';

interface Model {
  readonly name: string;
  readonly config: object;
  readonly goals: Goals;
}

const MODELS: readonly Model[] = [
  { name: 'Qwen3-0.6B', config: QWEN3_06B, goals: { decode: { 1: 800 } } },
  {
    name: 'Llama-3.1-8B',
    config: LLAMA_8B,
    goals: { prefill: 30000, decode: { 1: 160, 64: 5700, 256: 10900 } },
  },
];

const WORKLOAD: Workload = { context: 1024, sequences: [1, 64, 256], steps: 24, warmSteps: 256 };
const { values } = parseArgs({ options: { model: { type: 'string' } } });
if (values.model === undefined) await measureAll();
else
  for await (const result of measureModel(values.model, values.model, WORKLOAD, { decode: {} }))
    report(result);

async function measureAll(): Promise<void> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    for (const { name, config, goals } of MODELS) {
      const path = join(folder, name);
      mkdirSync(path);
      writeFileSync(join(path, 'config.json'), JSON.stringify(config));
      for await (const result of measureModel(name, path, WORKLOAD, goals)) report(result);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}
