// Runs the prompts of a call through a pooling model, as many at once as keep its seats full.

import type { InferenceEngine, PreparedPooling } from '../engine/inference-engine.ts';
import { startProgress } from './progress.ts';

interface PoolOptions {
  readonly signal: AbortSignal;
  readonly useProgressBar: boolean | undefined;
  /** Prompts that are in the engine at once. */
  readonly numAtOnce: number;
}

/** @returns the numbers of each prompt, in their order. */
export async function poolAll(
  engine: InferenceEngine,
  prompts: readonly PreparedPooling[],
  { signal, useProgressBar = true, numAtOnce }: PoolOptions,
): Promise<Float32Array[]> {
  const pooled = new Array<Float32Array>(prompts.length);
  const progress = await startProgress(prompts.length, useProgressBar);
  const queue = prompts.entries();
  const work = async (): Promise<void> => {
    for (const [index, prompt] of queue) {
      pooled[index] = await engine.pool(prompt, signal);
      progress.advance(prompt.promptTokenIds.length, 0);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(numAtOnce, prompts.length) }, work));
  } finally {
    progress.stop();
  }
  return pooled;
}
