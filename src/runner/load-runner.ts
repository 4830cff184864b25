// Loads the model, chooses the size of its KV memory and takes it.

import type { EngineConfig } from '../config/engine-config.ts';
import { NotAvailableError } from '../errors.ts';
import type { ImageProcessor } from '../images/image-processor.ts';
import { loadImageProcessor } from '../images/load-image-processor.ts';
import { type LoadedAdapter, loadAdapter } from '../models/adapters/load-adapter.ts';
import { preferredHalf } from '../models/load-model.ts';
import type { Model } from '../models/model.ts';
import { readModelConfig } from '../models/registry.ts';
import { openConfiguredSource } from '../models/source/configured-source.ts';
import type { ModelSource } from '../models/source/model-source.ts';
import { loadStages, type StagePlace } from '../models/staged-model.ts';
import { PackedCache } from '../models/weights/packed-cache.ts';
import { freeHostMemory } from '../ops/host-memory.ts';
import type { Ops } from '../ops/ops.ts';
import type { RankSeat } from '../ops/ranks.ts';
import { type SelectedStages, selectStages } from '../ops/select.ts';
import { once } from '../util/once.ts';
import { compatibilityOf, describe, describeStages } from './describe-engine.ts';
import { FOR_WEIGHTS, forKvCache, withMemoryFor } from './device-memory.ts';
import type { DraftModel } from './draft-model.ts';
import { bytesToSee } from './encoded-images.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { expectPossible } from './expect-possible.ts';
import { overcommitNotice } from './kv-budget.ts';
import { type KvMemory, takeKvMemory } from './kv-memory.ts';
import { KvPlan, type StagedDesign } from './kv-plan.ts';
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
  const modelConfig = readModelConfig(source, config);
  expectPossible(config, modelConfig, imageProcessor(config, source));
  const half = preferredHalf(modelConfig, config);
  const agree = place?.agree ?? (async (own) => own());
  return await loadOrFallBack(selectStages({ ...config, half }, place?.seats), (selected) =>
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

/** What each part of a start needs. */
interface Loading extends Required<Pick<LoadListeners, 'onProgress' | 'onWarning'>> {
  readonly config: EngineConfig;
  readonly source: ModelSource;
  /** One for each stage of the model. */
  readonly places: readonly StagePlace[];
  /** [stages] Those of `places`. */
  readonly stages: readonly Ops[];
  readonly agree: LoadPlace['agree'];
}

async function loadOn(
  { stages, draft, reason, warning }: SelectedStages,
  source: ModelSource,
  config: EngineConfig,
  { onProgress = () => {}, onWarning: tell = () => {} }: LoadListeners,
  agree: LoadPlace['agree'],
): Promise<Executor> {
  // Stages load alike.
  const onWarning = once(tell);
  if (warning !== null) onWarning(warning);
  const places = stages.map((ops) => ({ ops, packedCache: openPackedCache(config, ops, onWarning) }));
  const loading = { config, source, places, stages, agree, onProgress, onWarning };
  const loaded = await loadWeights(loading, draft);
  const sizes = await chooseSizes(loading, loaded);
  const kv = await takeCache(loading, loaded.model, sizes);
  const info = { ...describeAll(loading, loaded.model, sizes, kv), backendReason: reason };
  // One of several engines writes what all of them read.
  if (isFirstEngine(config)) for (const { packedCache } of places) void packedCache?.keep();
  const { model, draftModel, adapters } = loaded;
  const { pooling } = model.config;
  if (pooling !== null) return new PoolingRunner(info, stages, model, kv, pooling);
  return new ModelRunner(info, stages, model, kv, draftModel, adapters, tell);
}

interface Loaded {
  readonly model: Model;
  readonly draftModel: DraftModel | null;
  readonly adapters: readonly LoadedAdapter[];
  /** Beside the weights. */
  readonly plan: KvPlan;
}

/** @param draftOps what the draft model is computed on, null where there is none to be */
async function loadWeights(loading: Loading, draftOps: Ops | null): Promise<Loaded> {
  const { config, source, stages, onProgress } = loading;
  const draftSource = draftOps && openDraftSource(config, source);
  const before = new KvPlan(config, stages);
  const model = await loadTarget(loading, before);
  const { weightBytes } = model;
  const plan = before.beside({ weightBytes });
  const draft =
    draftSource &&
    (await withMemoryFor(FOR_WEIGHTS, () =>
      loadDraftModel(draftSource, draftOps, config, plan.maxModelLen(model), loading),
    ));
  const adapters = loadAdapters(config, model, onProgress);
  if (draft === null) return { model, draftModel: null, adapters, plan };
  const { draftModel, kvBytes: draftBytes } = draft;
  const both = plan.beside({ draftBytes, weightBytes: weightBytes + draft.weightBytes });
  return { model, draftModel, adapters, plan: both };
}

async function loadTarget(
  { config, source, places, agree, onProgress, onWarning }: Loading,
  plan: KvPlan,
): Promise<Model> {
  const { ops } = places.at(-1)!;
  const images = imageProcessor(config, source);
  return await withMemoryFor(FOR_WEIGHTS, () =>
    loadStages(source, places, readModelConfig(source, config), {
      dtype: config.dtype,
      quantization: config.quantization,
      kvCacheDtype: config.kvCacheDtype,
      maxModelLen: plan.wantedLength,
      servedLength: config.maxModelLen === 'auto' ? (shape) => agree(() => plan.maxModelLen(shape)) : null,
      seesImages: images !== null,
      mostPatches: images?.mostPatches,
      choice: config,
      // What does not fit now will not fit beside the weights.
      onOpen: (shape, published) => {
        plan.numBlocks(shape, plan.maxModelLen(shape));
        const notice = weightsNotice(shape.config, published, config.quantization, ops);
        if (notice !== null) onWarning(notice);
      },
      onWarning,
      onProgress,
    }),
  );
}

/** Null where no prompt can have images: what would see them is not loaded. */
function imageProcessor(
  { maxImages, skipTokenizerInit, mmProcessorKwargs }: EngineConfig,
  source: ModelSource,
): ImageProcessor | null {
  return maxImages > 0 && !skipTokenizerInit ? loadImageProcessor(source, mmProcessorKwargs ?? {}) : null;
}

/** How much runs at the same time, and how much KV memory there is for it. */
interface CacheSizes {
  readonly maxNumSeqs: number;
  readonly maxModelLen: number;
  readonly numBlocks: number;
  /** See `EngineInfo`. */
  readonly receiveRoom: number;
  /** Null where layers keep no states. */
  readonly states: StateCounts | null;
  /** Of a cache with one block. */
  readonly design: StagedDesign;
}

/** Lets devices with memory of their own take what steps need of it, and plans with what is left then. */
async function chooseSizes(
  { config, stages, agree, onWarning }: Loading,
  { model, adapters, plan: besideWeights }: Loaded,
): Promise<CacheSizes> {
  const withStates = async (plan: KvPlan) => {
    const numStates = await agree(() => plan.fittingStates(model));
    const states = model.config.recurrent && shareStates(config, numStates);
    return { plan: plan.withStates(numStates), states };
  };
  const first = await withStates(besideWeights);
  const longest = await agree(() => first.plan.maxModelLen(model));
  // The first ops of all ranks are among those of these steps: by now all have loaded.
  const activationBytes = takeActivations(stages, model, first.plan.design(model), {
    ...config,
    maxNumSeqs: first.states?.maxNumSeqs ?? config.maxNumSeqs,
    ...(config.kvCacheMemoryBytes !== null && SMALLEST_STEP),
    maxModelLen: longest,
    hasAdapters: adapters.length > 0,
  });
  const { plan, states } = await withStates(
    besideWeights.beside({ activationBytes, encoderBytes: bytesToSee(model.imageEncoder) }),
  );
  const maxNumSeqs = states?.maxNumSeqs ?? config.maxNumSeqs;
  if (maxNumSeqs < config.maxNumSeqs) onWarning(fewStatesNotice(config, maxNumSeqs));
  const maxModelLen = await agree(() => plan.maxModelLen(model));
  const numBlocks = await agree(() => plan.numBlocks(model, maxModelLen));
  const receiveRoom = plan.receiveRoom(model, numBlocks, freeHostMemory());
  return { maxNumSeqs, maxModelLen, numBlocks, receiveRoom, states, design: plan.design(model) };
}

async function takeCache(
  { config, stages, onWarning }: Loading,
  model: Model,
  { numBlocks, design: { shape } }: CacheSizes,
): Promise<KvMemory> {
  const ops = stages.at(-1)!;
  const isFirst = isFirstEngine(config) && ops.ranks.rank === 0;
  const notice = isFirst ? overcommitNotice(config, ops) : null;
  if (notice !== null) onWarning(notice);
  return await withMemoryFor(forKvCache(config.kvCacheMemoryBytes), () =>
    takeKvMemory(stages, model, { ...shape, blocks: numBlocks }, config.kvTransfer !== null),
  );
}

function describeAll(
  { config, source, stages, places }: Loading,
  model: Model,
  { maxNumSeqs, maxModelLen, numBlocks, receiveRoom, states, design: { windows, stateBlocks } }: CacheSizes,
  kv: KvMemory,
): Omit<EngineInfo, 'backendReason'> {
  const fingerprint = source.fingerprint();
  const about = { config, ops: stages.at(-1)!, model, fingerprint, maxModelLen, windows, stateBlocks };
  const described = describe(about, numBlocks);
  return {
    ...described,
    maxConcurrency: states ? Math.min(described.maxConcurrency, maxNumSeqs) : described.maxConcurrency,
    maxNumSeqs,
    receiveRoom,
    numSnapshots: states?.numSnapshots ?? null,
    ...describeStages(stages, model, kv),
    isFromPackedCache: places.every(({ packedCache }) => packedCache?.hasAllWeights ?? false),
    kvCompatibility: config.kvTransfer === null ? null : { ...compatibilityOf(about), ...kv.layout },
  };
}

/** Of several engines behind one port. */
function isFirstEngine({ share }: EngineConfig): boolean {
  return (share?.rank ?? 0) === 0;
}

/** A cache of a given size is made whatever steps need: the least of them shows what the device does not compute. */
const SMALLEST_STEP = { maxNumBatchedTokens: 1, maxNumSeqs: 1 };

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
