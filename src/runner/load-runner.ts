// Loads the model, chooses the size of its KV memory and takes it.

import type { EngineConfig } from '../config/engine-config.ts';
import { NotAvailableError } from '../errors.ts';
import { type LoadedAdapter, loadAdapter } from '../models/adapters/load-adapter.ts';
import type { Model } from '../models/model.ts';
import { readModelConfig } from '../models/registry.ts';
import { openConfiguredSource } from '../models/source/configured-source.ts';
import type { ModelSource } from '../models/source/model-source.ts';
import { loadStages } from '../models/staged-model.ts';
import { PackedCache } from '../models/weights/packed-cache.ts';
import type { Ops } from '../ops/ops.ts';
import type { RankSeat } from '../ops/ranks.ts';
import { type SelectedStages, selectStages } from '../ops/select.ts';
import { once } from '../util/once.ts';
import { compatibilityOf, describe, describeStages } from './describe-engine.ts';
import { FOR_WEIGHTS, forKvCache, withMemoryFor } from './device-memory.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { expectPossible } from './expect-possible.ts';
import { overcommitNotice } from './kv-budget.ts';
import { takeKvMemory } from './kv-memory.ts';
import { KvPlan } from './kv-plan.ts';
import { loadDraftModel, openDraftSource } from './load-draft-model.ts';
import { weightsNotice } from './memory-estimate.ts';
import { ModelRunner } from './model-runner.ts';
import { PoolingRunner } from './pooling-runner.ts';
import { type StateCounts, shareStates } from './state-counts.ts';
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
  /** One for each stage of the model. */
  readonly seats: readonly RankSeat[];
  /** The least of what all ranks say, each when it has come so far; rank 0 when all have. */
  agree(own: () => number): Promise<number>;
}

/**
 * Loads the model in one piece, or its layers in stages.
 * @throws ModelLoadError, ConfigError or NativeAddonError naming what to mend.
 */
export async function loadRunner(
  config: EngineConfig,
  listeners: LoadListeners = {},
  place: LoadPlace | null = null,
): Promise<Executor> {
  const source = openConfiguredSource(config);
  expectPossible(config, readModelConfig(source, config));
  const agree = place?.agree ?? (async (own) => own());
  return await loadOrFallBack(selectStages(config, place?.seats), (selected) =>
    loadOn(selected, source, config, listeners, agree),
  );
}

/** What has failed frees its memory, which what is loaded in its place needs. */
async function loadOrFallBack(
  selected: SelectedStages,
  load: (selected: SelectedStages) => Promise<Executor>,
): Promise<Executor> {
  try {
    return await load(selected);
  } catch (error) {
    for (const ops of selected.stages) ops.close();
    selected.draft?.close();
    if (!(error instanceof NotAvailableError) || selected.otherwise === undefined) throw error;
    return await loadOrFallBack(selected.otherwise(error.message), load);
  }
}

async function loadOn(
  { stages, draft: draftOps, reason, warning }: SelectedStages,
  source: ModelSource,
  config: EngineConfig,
  { onProgress = () => {}, onWarning: tell = () => {} }: LoadListeners,
  agree: LoadPlace['agree'],
): Promise<Executor> {
  // Stages load alike.
  const onWarning = once(tell);
  if (warning !== null) onWarning(warning);
  const ops = stages.at(-1)!;
  const plan = new KvPlan(config, stages);
  const draftSource = draftOps && openDraftSource(config, source);
  const places = stages.map((stage) => ({
    ops: stage,
    packedCache: openPackedCache(config, stage, onWarning),
  }));
  const model = await withMemoryFor(FOR_WEIGHTS, () =>
    loadStages(source, places, readModelConfig(source, config), {
      dtype: config.dtype,
      quantization: config.quantization,
      kvCacheDtype: config.kvCacheDtype,
      maxModelLen: plan.wantedLength,
      servedLength: config.maxModelLen === 'auto' ? (shape) => agree(() => plan.maxModelLen(shape)) : null,
      choice: config,
      // What does not fit now will not fit beside the weights.
      onOpen: (shape, publishedBytes) => {
        plan.numBlocks(shape, plan.maxModelLen(shape));
        const notice = weightsNotice(shape.config, publishedBytes, config.quantization, ops);
        if (notice !== null) onWarning(notice);
      },
      onWarning,
      onProgress,
    }),
  );
  plan.weightBytes = model.weightBytes;
  const listeners = { onProgress, onWarning };
  const draft =
    draftSource &&
    (await withMemoryFor(FOR_WEIGHTS, () =>
      loadDraftModel(draftSource, draftOps, config, plan.maxModelLen(model), listeners),
    ));
  plan.draftBytes = draft?.kvBytes ?? 0;
  plan.weightBytes = model.weightBytes + (draft?.weightBytes ?? 0);
  const adapters = loadAdapters(config, model, onProgress);
  const states = await makeRoomForSteps(plan, stages, model, config, adapters.length > 0, agree);
  const maxNumSeqs = states?.maxNumSeqs ?? config.maxNumSeqs;
  if (maxNumSeqs < config.maxNumSeqs) onWarning(fewStatesNotice(config, maxNumSeqs));
  const maxModelLen = await agree(() => plan.maxModelLen(model));
  const numBlocks = await agree(() => plan.numBlocks(model, maxModelLen));
  const { shape, windows, stateBlocks } = plan.design(model);
  const isFirstEngine = (config.share?.rank ?? 0) === 0;
  const notice = isFirstEngine && ops.ranks.rank === 0 ? overcommitNotice(config, ops) : null;
  if (notice !== null) onWarning(notice);
  const kv = await withMemoryFor(forKvCache(config.kvCacheMemoryBytes), () =>
    takeKvMemory(stages, model, { ...shape, blocks: numBlocks }, config.kvTransfer !== null),
  );
  const about = { config, ops, model, fingerprint: source.fingerprint(), maxModelLen, windows, stateBlocks };
  const described = describe(about, numBlocks);
  const info: EngineInfo = {
    ...described,
    maxConcurrency: states ? Math.min(described.maxConcurrency, maxNumSeqs) : described.maxConcurrency,
    maxNumSeqs,
    numSnapshots: states?.numSnapshots ?? null,
    ...describeStages(stages, model, kv),
    backendReason: reason,
    isFromPackedCache: places.every(({ packedCache }) => packedCache?.hasAllWeights ?? false),
    kvCompatibility: config.kvTransfer === null ? null : { ...compatibilityOf(about), ...kv.layout },
  };
  // One of several engines writes what all of them read.
  if (isFirstEngine) for (const { packedCache } of places) void packedCache?.keep();
  const { pooling } = model.config;
  if (pooling !== null) return new PoolingRunner(info, stages, model, kv, pooling);
  return new ModelRunner(info, stages, model, kv, draft?.draftModel ?? null, adapters, tell);
}

/** A cache of a given size is made whatever steps need: the least of them shows what the device does not compute. */
const SMALLEST_STEP = { maxNumBatchedTokens: 1, maxNumSeqs: 1 };

/** Lets devices with memory of their own take what steps need of it. @returns the states that fit beside that; null where layers keep none */
async function makeRoomForSteps(
  plan: KvPlan,
  stages: readonly Ops[],
  model: Model,
  config: EngineConfig,
  hasAdapters: boolean,
  agree: LoadPlace['agree'],
): Promise<StateCounts | null> {
  const fitStates = async (): Promise<StateCounts | null> => {
    const numStates = await agree(() => plan.fittingStates(model));
    plan.numStates = numStates;
    return model.config.recurrent && shareStates(config, numStates);
  };
  const { maxNumSeqs = config.maxNumSeqs } = (await fitStates()) ?? {};
  const maxModelLen = await agree(() => plan.maxModelLen(model));
  // The first ops of all ranks are among those of these steps: by now all have loaded.
  plan.activationBytes = takeActivations(stages, model, plan.design(model), {
    ...config,
    maxNumSeqs,
    ...(config.kvCacheMemoryBytes !== null && SMALLEST_STEP),
    maxModelLen,
    hasAdapters,
  });
  return await fitStates();
}

function fewStatesNotice({ maxNumSeqs }: EngineConfig, numSequences: number): string {
  return (
    `${numSequences} sequences run at the same time at most, fewer than --max-num-seqs ${maxNumSeqs}: layers of this model keep a state of ` +
    'each, which may take half of the memory of the KV cache; raise --kv-cache-memory-bytes (or --gpu-memory-utilization) for more'
  );
}

/** Those of the configuration, known by their places. */
function loadAdapters(
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

/** Null where none is configured, or the backend packs nothing. */
function openPackedCache(
  { packedCache: folder, packedCacheSize: maxBytes }: EngineConfig,
  { packedWeights, backend }: Ops,
  onWarning: (message: string) => void,
): PackedCache | null {
  if (folder === null) return null;
  if (packedWeights !== null) return new PackedCache({ folder, maxBytes }, packedWeights, onWarning);
  onWarning(`--packed-cache has no effect: the ${backend} backend does not pack weights`);
  return null;
}
