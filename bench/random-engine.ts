// An engine on random weights in the shape of a real model, as the server and `LLM` start it, for measuring.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineConfig } from '../src/config/engine-config.ts';
import { InferenceEngine } from '../src/engine/inference-engine.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';

/** Writes the model, runs `body` for each of `configs` with an engine of its own, and removes the model. */
export async function withRandomEngines<T>(
  shape: RandomModelShape,
  configs: readonly Partial<EngineConfig>[],
  body: (engine: InferenceEngine, index: number) => Promise<T>,
): Promise<T[]> {
  const modelPath = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(modelPath, shape);
    const results: T[] = [];
    for (const [index, config] of configs.entries()) {
      const engine = await InferenceEngine.start({
        ...ENGINE_DEFAULTS,
        ...config,
        modelPath,
        skipTokenizerInit: true,
      });
      results.push(await body(engine, index).finally(() => engine.close()));
    }
    return results;
  } finally {
    rmSync(modelPath, { recursive: true });
  }
}
