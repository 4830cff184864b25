// The tiny embedding models and rerankers of tools/goldens/pooling.py, and an engine for each.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';

const ROOT = fileURLToPath(new URL('../fixtures/pooling', import.meta.url));

const ids = z.array(z.number());
const golden = z.object({
  cases: z.array(
    z.union([
      z.object({ text: z.string(), ids, values: z.array(z.number()) }),
      z.object({ pair: z.tuple([z.string(), z.string()]), ids, types: ids.nullable(), score: z.number() }),
    ]),
  ),
});

export type PoolingCase = z.output<typeof golden>['cases'][number];
export type EmbeddingCase = Extract<PoolingCase, { text: string }>;
export type PairCase = Extract<PoolingCase, { pair: [string, string] }>;

export const POOLING_MODELS = readdirSync(ROOT);

export function poolingFolder(name: string): string {
  return join(ROOT, name);
}

export function poolingCases(name: string): PoolingCase[] {
  return golden.parse(JSON.parse(readFileSync(join(ROOT, name, 'golden.json'), 'utf8'))).cases;
}

export function embeddingCases(name: string): EmbeddingCase[] {
  return poolingCases(name).filter((one): one is EmbeddingCase => 'text' in one);
}

export function pairCases(name: string): PairCase[] {
  return poolingCases(name).filter((one): one is PairCase => 'pair' in one);
}

/** What a model is turned into whose files do not say that it is a reranker. */
export function conversionOf(name: string): Pick<EngineConfig, 'convert'> {
  return { convert: name === 'qwen3-reranker' ? 'classify' : 'auto' };
}

export function startPooling(name: string, options: Partial<EngineConfig> = {}): Promise<InferenceEngine> {
  return InferenceEngine.start({
    ...ENGINE_DEFAULTS,
    modelPath: poolingFolder(name),
    kvCacheMemoryBytes: 8 * 2 ** 20,
    ...conversionOf(name),
    ...options,
  });
}
