// Loads the model, chooses the size of its KV memory and takes it.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError, NotAvailableError } from '../errors.ts';
import { mostBlocks } from '../kv-cache/block-groups.ts';
import { type LoadedAdapter, loadAdapter } from '../models/adapters/load-adapter.ts';
import { loadModel } from '../models/load-model.ts';
import type { Model } from '../models/model.ts';
import type { ModelConfig } from '../models/model-config.ts';
import { readModelConfig } from '../models/registry.ts';
import { openConfiguredSource } from '../models/source/configured-source.ts';
import { PackedCache } from '../models/weights/packed-cache.ts';
import { numKvRows } from '../ops/kv-rows.ts';
import type { Ops } from '../ops/ops.ts';
import type { RankSeat } from '../ops/ranks.ts';
import { selectOps } from '../ops/select.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { KvPlan } from './kv-plan.ts';
import { loadDraftModel, openDraftSource } from './load-draft-model.ts';
import { ModelRunner } from './model-runner.ts';
import { PoolingRunner } from './pooling-runner.ts';
import { takeActivations } from './take-activations.ts';

export interface LoadListeners {
  readonly onProgress?: (fraction: number, what: string) => void;
  /** Gets what a person should know though the model loads. */
  readonly onWarning?: (message: string) => void;
  /** Called where another thread that computes, too, has ended by itself: nothing can be computed any more. */
  readonly onFailure?: (error: Error) => void;
}

/** Where a rank loads its slice of the model. */
export interface LoadPlace {
  readonly seat: RankSeat;
  /** The least of what all ranks say, each when it has come so far; rank 0 when all have. */
  agree(own: () => number): Promise<number>;
}

/** @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend. */
export async function loadRunner(
  config: EngineConfig,
  listeners: LoadListeners = {},
  place: LoadPlace | null = null,
): Promise<Executor> {
  const selected = selectOps(config, place?.seat);
  const agree = place?.agree ?? (async (own) => own());
  try {
    return await loadOn(selected, config, listeners, agree);
  } catch (error) {
    selected.ops.close();
    if (!(error instanceof NotAvailableError) || selected.otherwise === undefined) throw error;
    return await loadOn(selected.otherwise(error.message), config, listeners, agree);
  }
}

async function loadOn(
  { ops, reason, warning }: ReturnType<typeof selectOps>,
  config: EngineConfig,
  { onProgress = () => {}, onWarning = () => {} }: LoadListeners,
  agree: LoadPlace['agree'],
): Promise<Executor> {
  if (warning !== null) onWarning(warning);
  const plan = new KvPlan(config, ops);
  const packedCache = openPackedCache(config, ops, onWarning);
  const source = openConfiguredSource(config);
  expectPossible(config, readModelConfig(source, config));
  const draftSource = openDraftSource(config, source);
  const model = await loadModel(source, ops, {
    dtype: config.dtype,
    quantization: config.quantization,
    kvCacheDtype: config.kvCacheDtype,
    packedCache,
    maxModelLen: plan.wantedLength,
    servedLength: config.maxModelLen === 'auto' ? (shape) => agree(() => plan.maxModelLen(shape)) : null,
    choice: config,
    // What does not fit now will not fit beside the weights.
    onOpen: (shape) => void plan.numBlocks(shape, plan.maxModelLen(shape)),
    onWarning,
    onProgress,
  });
  plan.weightBytes = model.weightBytes;
  const listeners = { onProgress, onWarning };
  const draft =
    draftSource && (await loadDraftModel(draftSource, ops, config, plan.maxModelLen(model), listeners));
  plan.draftBytes = draft?.kvBytes ?? 0;
  plan.weightBytes = model.weightBytes + (draft?.weightBytes ?? 0);
  const adapters = loadAdapters(config, model, onProgress);
  if (config.kvCacheMemoryBytes === null) {
    const limits = { ...config, maxModelLen: plan.maxModelLen(model), hasAdapters: adapters.length > 0 };
    plan.activationBytes = takeActivations(ops, model, plan.design(model), limits);
  }
  const maxModelLen = await agree(() => plan.maxModelLen(model));
  const numBlocks = await agree(() => plan.numBlocks(model, maxModelLen));
  const isShared = config.kvTransfer !== null;
  const { shape, windows } = plan.design(model);
  const cache = ops.makeKvCache({ ...shape, blocks: numBlocks }, isShared);
  const layers = numKvRows(shape);
  // Heads that cannot be cut, as those of latent attention, are whole on every rank.
  const numCuts = shape.kvHeads === model.config.numKvHeads ? 1 : ops.ranks.size;
  const firstHead = numCuts === 1 ? 0 : ops.ranks.rank * shape.kvHeads;
  const heads = { first: firstHead, end: firstHead + shape.kvHeads };
  const parts = isShared
    ? [{ layers: { first: 0, end: layers }, heads, token: ops.shareKvMemory(cache) }]
    : [];
  const kvMemory = {
    layers,
    heads: shape.kvHeads * numCuts,
    layerBlockBytes: cache.layerBlockBytes * numCuts,
  };
  const about = {
    config,
    ops,
    model,
    fingerprint: source.fingerprint(),
    maxModelLen,
    windows,
  };
  const info: EngineInfo = {
    ...describe(about, numBlocks),
    ranks: [
      {
        compute: ops.description,
        weightBytes: model.weightBytes,
        kvCacheBytes: numBlocks * layers * cache.layerBlockBytes,
      },
    ],
    backendReason: reason,
    isFromPackedCache: packedCache?.hasAllWeights ?? false,
    kvCompatibility: isShared ? { ...compatibilityOf(about), ...kvMemory } : null,
  };
  // One writes what all of them read.
  if ((config.share?.rank ?? 0) === 0) void packedCache?.keep();
  const { pooling } = model.config;
  if (pooling !== null) return new PoolingRunner(info, ops, model, { cache, parts }, pooling);
  return new ModelRunner(
    info,
    [ops],
    model,
    { cache, parts },
    draft?.draftModel ?? null,
    adapters,
    onWarning,
  );
}

interface Loaded {
  readonly config: EngineConfig;
  readonly ops: Ops;
  readonly model: Model;
  readonly fingerprint: string;
  readonly maxModelLen: number;
  readonly windows: EngineInfo['windows'];
}

/** What does not depend on where the model is computed, and what the backend says of itself. */
export function describe(
  { config, ops, model, fingerprint, maxModelLen, windows }: Loaded,
  numBlocks: number,
) {
  const { blockSize, maxNumBatchedTokens, modelPath } = config;
  const { architecture, pooling, encoder, vocabSize } = model.config;
  return {
    model: modelPath,
    architecture,
    dtype: model.dtype,
    kvDType: model.kvDType,
    weightFormat: model.weightFormat,
    backend: ops.backend,
    isa: ops.isa,
    modelFingerprint: fingerprint,
    compute: ops.description,
    weightBytes: model.weightBytes,
    blockSize,
    numBlocks,
    windows,
    shortContext: model.shortContext,
    maxModelLen,
    pooling,
    computesWholePrompts: encoder !== null,
    vocabSize,
    maxConcurrency: numBlocks / mostBlocks({ blockSize, windows }, maxModelLen, maxNumBatchedTokens),
  };
}

/** What two instances must have in common beside the layout of their KV memory. */
export function compatibilityOf({ config, ops, model, fingerprint, maxModelLen, windows }: Loaded) {
  return {
    // Positions of long contexts are stretched by the longest one that is served.
    model: model.shortContext === null ? fingerprint : `${fingerprint} of ${maxModelLen} tokens`,
    isa: ops.isa,
    dtype: model.dtype,
    kvDType: model.kvDType,
    weightFormat: model.weightFormat,
    blockSize: config.blockSize,
    windows,
  };
}

/** Those of the configuration, known by their places. */
export function loadAdapters(
  { lora }: EngineConfig,
  model: Model,
  onProgress: NonNullable<LoadListeners['onProgress']>,
): LoadedAdapter[] {
  return (lora?.modules ?? []).map(({ name, path }, id) => {
    onProgress(1, `adapter ${name}`);
    const loading = loadAdapter({ id, path, maxRank: lora!.maxLoraRank }, model);
    let part = loading.next();
    while (part.done !== true) part = loading.next();
    return part.value;
  });
}

/** @throws ConfigError where a model that generates nothing is to guess tokens ahead, to hand its cache over, or to have adapters. */
export function expectPossible(
  { speculative, kvTransfer, lora }: EngineConfig,
  { pooling }: ModelConfig,
): void {
  const given = { 'speculative-config': speculative, 'kv-transfer-config': kvTransfer, 'lora-modules': lora };
  const option = Object.entries(given).find(([, value]) => value !== null)?.[0];
  if (pooling === null || option === undefined) return;
  throw new ConfigError(
    `--${option} is for models that generate text, and this one gives embeddings or scores: leave it out`,
    {
      param: option,
    },
  );
}

/** Null where none is configured, or the backend packs nothing. */
export function openPackedCache(
  { packedCache: folder, packedCacheSize: maxBytes }: EngineConfig,
  { packedWeights, backend }: Ops,
  onWarning: (message: string) => void,
): PackedCache | null {
  if (folder === null) return null;
  if (packedWeights !== null) return new PackedCache({ folder, maxBytes }, packedWeights, onWarning);
  onWarning(`--packed-cache has no effect: the ${backend} backend does not pack weights`);
  return null;
}
