// The tiny embedding models and rerankers of tools/goldens/pooling.py, and an engine for each.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { z } from 'zod';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { preparePooling } from '../../src/engine/pooling/pooling-input.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { newRequest } from '../helpers/new-request.ts';

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

/** @param change what becomes of a text before it is cut; left out, nothing */
export async function expectOriginalTokens(
  tokenizer: Tokenizer,
  name: string,
  change: (text: string) => string = (text) => text,
): Promise<void> {
  const limits = {
    maxModelLen: 512,
    vocabSize: tokenizer.vocabSize,
    eosTokenIds: [],
    suppressedTokenIds: [],
    maxOutputTokens: null,
    maxLogprobs: 0,
  };
  const model = { tokenizer, limits, pairPrompt: name.startsWith('qwen3') ? 'qwen3' : 'pair' } as const;
  const cases = poolingCases(name);
  for (const one of cases) {
    const prompt =
      'text' in one
        ? { text: change(one.text) }
        : { pair: [change(one.pair[0]), change(one.pair[1])] as const };
    const prepared = await preparePooling(prompt, { param: 'input' }, model);
    expect(prepared.promptTokenIds).toEqual(one.ids);
    const types = 'types' in one ? one.types : null;
    expect(prepared.secondTextStart).toBe(types === null ? null : types.indexOf(1));
  }
  expect(cases.length).toBeGreaterThan(3);
}

/** What a model is turned into whose files do not say that it is a reranker. */
export function conversionOf(name: string): Pick<EngineConfig, 'convert'> {
  return { convert: name === 'qwen3-reranker' ? 'classify' : 'auto' };
}

function poolingConfig(name: string, options: Partial<EngineConfig>): EngineConfig {
  return {
    ...ENGINE_DEFAULTS,
    modelPath: poolingFolder(name),
    kvCacheMemoryBytes: 8 * 2 ** 20,
    ...conversionOf(name),
    ...options,
  };
}

export function startPooling(name: string, options: Partial<EngineConfig> = {}): Promise<InferenceEngine> {
  return InferenceEngine.start(poolingConfig(name, options));
}

/** The engine without its thread. */
export function startPoolingCore(name: string, options: Partial<EngineConfig> = {}): Promise<EngineCore> {
  return EngineCore.start(poolingConfig(name, options));
}

/** What the engine reads of a text. */
export interface PooledPrompt {
  readonly promptTokenIds: readonly number[];
  readonly secondTextStart: number | null;
}

let lastId = 0;

/** The numbers of each prompt; all are in the engine at once. */
export function poolOn(core: EngineCore, prompts: readonly PooledPrompt[]): Float32Array[] {
  const ids = prompts.map(({ promptTokenIds, secondTextStart }) => {
    lastId += 1;
    core.scheduler.add({
      ...newRequest({ id: lastId, promptTokenIds, stop: { maxTokens: 1 } }),
      pooling: { secondTextStart },
    });
    return lastId;
  });
  const pooled = new Map<number, Float32Array>();
  while (core.hasUnfinished) {
    for (const { outputs } of core.step() ?? []) {
      for (const output of outputs) pooled.set(output.requestId, output.pooled!);
    }
  }
  return ids.map((id) => pooled.get(id)!);
}
