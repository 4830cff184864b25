// A tiny model that can be cut over up to four ranks, and what a server is told to cut it.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '../test/fixtures/tiny-model.ts';

const SHAPE = {
  hidden_size: 128,
  intermediate_size: 256,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 32,
};

/** What `body` gives, for the folder of the model, which is there until then. */
export async function withRankModel<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeTinyModel(folder, { seed: 3, config: SHAPE });
    return await body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A thread for each rank. */
export function rankArgs(degree: number): string[] {
  return ['--tensor-parallel-size', String(degree), '--num-threads', String(degree)];
}
