// Loads a model in pipeline stages: each has its layers, their part of the KV memory and its share of the threads. One thread gives all of
// them their ops, so a runner need not know of them.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import type { ModelConfig } from '../models/model-config.ts';
import { readModelConfig } from '../models/registry.ts';
import { openConfiguredSource } from '../models/source/configured-source.ts';
import { loadStagedModel } from '../models/staged-model.ts';
import { numKvRows } from '../ops/kv-rows.ts';
import type { KvCache, Ops } from '../ops/ops.ts';
import { selectStages } from '../ops/select.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { KvPlan } from './kv-plan.ts';
import {
  compatibilityOf,
  describe,
  expectPossible,
  type LoadListeners,
  loadAdapters,
  openPackedCache,
} from './load-runner.ts';
import { ModelRunner } from './model-runner.ts';

/** @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend. */
export async function loadStages(
  config: EngineConfig,
  { onProgress = () => {}, onWarning = () => {} }: LoadListeners = {},
): Promise<Executor> {
  const source = openConfiguredSource(config);
  const modelConfig = readModelConfig(source, config);
  expectPossible(config, modelConfig);
  expectStages(config, modelConfig);
  const selected = selectStages(config, config.pipelineParallelSize);
  const stages = selected.map(({ ops }) => ops);
  // What all stages have to say is said once.
  const said = new Set<string | null>([null]);
  const warn = (message: string | null): void => {
    if (message !== null && !said.has(message)) onWarning(message);
    said.add(message);
  };
  for (const { warning } of selected) warn(warning);
  try {
    return await loadOn(stages, config, modelConfig, { onProgress, onWarning: warn });
  } catch (error) {
    for (const ops of stages) ops.close();
    throw error;
  }
}

async function loadOn(
  stages: readonly Ops[],
  config: EngineConfig,
  modelConfig: ModelConfig,
  { onProgress, onWarning }: Required<Pick<LoadListeners, 'onProgress' | 'onWarning'>>,
): Promise<Executor> {
  const last = stages.at(-1)!;
  const plan = new KvPlan(config, last);
  const places = stages.map((ops) => ({ ops, packedCache: openPackedCache(config, ops, onWarning) }));
  const source = openConfiguredSource(config);
  const model = await loadStagedModel(source, places, modelConfig, {
    dtype: config.dtype,
    quantization: config.quantization,
    kvCacheDtype: config.kvCacheDtype,
    maxModelLen: plan.wantedLength,
    choice: config,
    onOpen: (shape) => void plan.numBlocks(shape, plan.maxModelLen(shape)),
    onWarning,
    onProgress,
  });
  plan.weightBytes = model.weightBytes;
  const adapters = loadAdapters(config, model, onProgress);
  const maxModelLen = plan.maxModelLen(model);
  const numBlocks = plan.numBlocks(model, maxModelLen);
  const { shape, windows } = plan.design(model);
  const isShared = config.kvTransfer !== null;
  if (isShared && windows.length > 1)
    throw refusalOf(
      stages.length,
      'is not available with --kv-transfer-config for models with windows: leave one out',
    );
  const cache = model.makeKvCache({ ...shape, blocks: numBlocks }, isShared);
  const heads = { first: 0, end: shape.kvHeads };
  const parts = stages.flatMap((ops, index) => {
    const [{ layers }, part] = [model.stages[index]!, cache.stages[index]!];
    return isShared ? [{ layers, heads, token: ops.shareKvMemory(part) }] : [];
  });
  const about = { config, ops: last, model, fingerprint: source.fingerprint(), maxModelLen, windows };
  const shares = stages.map(({ description }, index) => ({
    compute: description,
    weightBytes: model.stages[index]!.model.weightBytes,
    kvCacheBytes: cacheBytes(cache.stages[index]!, numBlocks),
  }));
  const info: EngineInfo = {
    ...describe(about, numBlocks),
    ranks: shares,
    compute: `${stages.length} pipeline stages: ${shares.map(({ compute }) => compute).join('; ')}`,
    backendReason: `asked for by --pipeline-parallel-size ${stages.length}`,
    isFromPackedCache: places.every(({ packedCache }) => packedCache?.hasAllWeights ?? false),
    kvCompatibility: isShared
      ? {
          ...compatibilityOf(about),
          layers: shape.layers,
          heads: shape.kvHeads,
          layerBlockBytes: cache.layerBlockBytes,
        }
      : null,
  };
  // One of several engines writes what all of them read.
  if ((config.share?.rank ?? 0) === 0) for (const { packedCache } of places) void packedCache?.keep();
  return new ModelRunner(info, stages, model, { cache, parts }, null, adapters, onWarning);
}

function cacheBytes({ shape, layerBlockBytes }: KvCache, numBlocks: number): number {
  return numBlocks * numKvRows(shape) * layerBlockBytes;
}

/** @throws ConfigError naming what cannot be had with stages. */
function expectStages(config: EngineConfig, { numLayers, pooling }: ModelConfig): void {
  const { pipelineParallelSize: numStages } = config;
  const refuse = (why: string): ConfigError => refusalOf(numStages, why);
  if (numStages > numLayers) {
    throw refuse(`is more than the ${numLayers} layers of the model: use at most ${numLayers}`);
  }
  if (pooling !== null) {
    throw refuse('is for models that generate text, and this one gives embeddings or scores: leave it out');
  }
  if (config.speculative?.method === 'draft_model') {
    throw refuse('is not available with a draft model: use the method ngram in --speculative-config');
  }
  if (config.tensorParallelSize > 1) {
    throw refuse(
      `is not available with --tensor-parallel-size ${config.tensorParallelSize}: use one of the two`,
    );
  }
  if (config.maxModelLen === 'auto') throw refuse('needs a number in --max-model-len, not auto');
}

function refusalOf(numStages: number, why: string): ConfigError {
  return new ConfigError(`--pipeline-parallel-size ${numStages} ${why}`, { param: 'pipeline-parallel-size' });
}
