// A model whose layers are in stages, each on a backend of its own with threads and memory of its own. One thread gives all of them
// their ops; each stage takes the hidden states of a step from the one before it, so that several steps are computed at the same time.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, Ops, StageLink, Tensor } from '../ops/ops.ts';
import type { LoraTarget } from './adapters/lora-target.ts';
import type { CacheSize } from './kv-cache-shape.ts';
import { divideLayers, type LayerRange } from './layer-range.ts';
import { type LoadOptions, loadModel } from './load-model.ts';
import type { ForwardInputs, Model, ModelShape } from './model.ts';
import type { ModelConfig } from './model-config.ts';
import type { PoolingHead } from './pooling/pooling-head.ts';
import { ofKind } from './recurrent-layers.ts';
import type { ModelSource } from './source/model-source.ts';
import type { ImageEncoder } from './vision/image-encoder.ts';
import type { PackedCache } from './weights/packed-cache.ts';

/** Where a stage is computed. */
export interface StagePlace {
  readonly ops: Ops;
  /** See `LoadOptions`. */
  readonly packedCache: PackedCache | null;
}

/** The KV memory of all stages: a block has the same number in each. */
export class StagedKvCache implements KvCache {
  /** Of all layers. */
  readonly shape: KvCacheShape;
  readonly stages: readonly KvCache[];

  constructor(shape: KvCacheShape, stages: readonly KvCache[]) {
    this.shape = shape;
    this.stages = stages;
  }

  get layerBlockBytes(): number {
    return this.stages[0]!.layerBlockBytes;
  }

  free(): void {
    for (const stage of this.stages) stage.free();
  }
}

/** The part of a cache that a stage has: its layers, in those of the groups that these are of. */
export function stageShape(config: ModelConfig, shape: KvCacheShape, layers: LayerRange): KvCacheShape {
  const own = kvLayersOf(config, layers);
  const groups = groupsOf(shape, own);
  const layerGroups = ofStage(shape, own).map((group) => groups.indexOf(group));
  const layerHeads = shape.layerHeads?.slice(own.first, own.end);
  const keeping = ofKind(config, layers, true);
  const states = shape.states && { ...shape.states, layers: keeping.end - keeping.first };
  // Those of an encoder share the memory of one.
  return {
    ...shape,
    layers: Math.min(shape.layers, own.end - own.first),
    layerGroups,
    layerHeads,
    ...(states && { states }),
  };
}

/** Those of a stage that have keys and values, among all that have; a stage without any gets memory for one, which nothing uses. */
function kvLayersOf(config: ModelConfig, layers: LayerRange): LayerRange {
  const { first, end } = ofKind(config, layers, false);
  return first < end ? { first, end } : { first: Math.max(0, first - 1), end: Math.max(1, end) };
}

/** The groups of all layers with keys and values that a stage has layers of, in order. */
function groupsOf(shape: KvCacheShape, layers: LayerRange): number[] {
  return [...new Set(ofStage(shape, layers))].sort((a, b) => a - b);
}

/** [layers of the stage] the group of each. */
function ofStage({ layerGroups }: KvCacheShape, { first, end }: LayerRange): readonly number[] {
  return layerGroups?.slice(first, end) ?? new Array<number>(end - first).fill(0);
}

/**
 * Loads a model in as many stages as there are places, all at the same time; the last one samples, or pools. In one place it is in one piece.
 * @throws ModelLoadError and ConfigError as `loadModel`, once no stage reads any more.
 */
export async function loadStages(
  source: ModelSource,
  places: readonly StagePlace[],
  config: ModelConfig,
  options: Omit<LoadOptions, 'packedCache' | 'layers'>,
): Promise<Model> {
  if (places.length > 1) return await loadStagedModel(source, places, config, options);
  const { ops, packedCache } = places[0]!;
  return await loadModel(source, ops, { ...options, packedCache });
}

async function loadStagedModel(
  source: ModelSource,
  places: readonly StagePlace[],
  config: ModelConfig,
  { onProgress = () => {}, servedLength = null, ...options }: Omit<LoadOptions, 'packedCache' | 'layers'>,
): Promise<StagedModel> {
  const progress = places.map(() => 0);
  const meeting = servedLength && new LengthMeeting(places.length, servedLength);
  const loads = divideLayers(config, places.length).map(async (layers, index): Promise<Stage> => {
    const { ops, packedCache } = places[index]!;
    const model = await loadModel(source, ops, {
      ...options,
      packedCache,
      layers,
      servedLength: meeting && ((shape) => meeting.join(shape)),
      onProgress: (fraction, what) => {
        progress[index] = fraction;
        onProgress(progress.reduce((sum, one) => sum + one, 0) / places.length, what);
      },
    });
    return { ops, model, layers, link: index === 0 ? null : ops.makeStageLink(places.length) };
  });
  for (const load of loads) load.catch((error) => meeting?.callOff(error));
  const outcomes = await Promise.allSettled(loads);
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return new StagedModel(
    outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? outcome.value : [])),
  );
}

/** Where the stages wait until the weights of all are in memory, to ask once how long contexts may be. */
class LengthMeeting {
  readonly #ask: NonNullable<LoadOptions['servedLength']>;
  readonly #length: Promise<number>;
  #numMissing: number;
  #resolve = (_length: Promise<number>): void => {};
  #reject = (_error: unknown): void => {};

  constructor(numStages: number, ask: NonNullable<LoadOptions['servedLength']>) {
    this.#numMissing = numStages;
    this.#ask = ask;
    this.#length = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Where it is called off there may be nobody who waits.
    this.#length.catch(() => {});
  }

  join(shape: ModelShape): Promise<number> {
    this.#numMissing -= 1;
    if (this.#numMissing === 0) this.#resolve(this.#ask(shape));
    return this.#length;
  }

  /** Who waits, or comes, gets the error of the stage that does not come. */
  callOff(error: unknown): void {
    this.#reject(error);
  }
}

interface Stage {
  readonly ops: Ops;
  readonly model: Model;
  readonly layers: LayerRange;
  /** From the stage before; null for the first. */
  readonly link: StageLink | null;
}

export class StagedModel implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly kvDType: KvDType;
  readonly weightFormat: string;
  readonly weightBytes: number;
  readonly shortContext: number | null;
  readonly loraTargets: readonly LoraTarget[];
  readonly imageEncoder: ImageEncoder | null;
  readonly poolingHead: PoolingHead | null;
  readonly #stages: readonly Stage[];

  constructor(stages: readonly Stage[]) {
    const models = stages.map(({ model }) => model);
    const { config, dtype, kvDType, shortContext, imageEncoder } = models[0]!;
    this.config = config;
    this.dtype = dtype;
    this.kvDType = kvDType;
    this.shortContext = shortContext;
    this.imageEncoder = imageEncoder;
    this.weightFormat = [...new Set(models.flatMap((one) => one.weightFormat.split('+')))].join('+');
    this.weightBytes = models.reduce((sum, one) => sum + one.weightBytes, 0);
    this.loraTargets = models.flatMap((one) => one.loraTargets);
    this.poolingHead = models.at(-1)!.poolingHead;
    this.#stages = stages;
  }

  /** [stages] */
  get stages(): readonly Pick<Stage, 'layers' | 'model'>[] {
    return this.#stages;
  }

  kvCacheShape(size: CacheSize): KvCacheShape {
    return this.#stages[0]!.model.kvCacheShape(size);
  }

  makeKvCache(shape: KvCacheShape, isShared: boolean): StagedKvCache {
    const caches = this.#stages.map(({ ops, layers }) =>
      ops.makeKvCache(stageShape(this.config, shape, layers), isShared),
    );
    return new StagedKvCache(shape, caches);
  }

  /** Gives each stage its ops of the step. @returns the hidden states that the last stage will have. */
  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    if (!(cache instanceof StagedKvCache)) throw new Error('a model in stages has a cache in stages');
    const numStages = this.#stages.length;
    for (const [index, stage] of this.#stages.slice(0, -1).entries()) {
      const next = this.#stages[index + 1]!;
      stage.ops.scope(() => {
        stage.ops.sendHidden(next.link!, this.#forward(stage, inputs, cache, index));
      });
    }
    return this.#forward(this.#stages[numStages - 1]!, inputs, cache, numStages - 1);
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    return this.#stages.at(-1)!.model.logits(hidden, rows);
  }

  #forward(stage: Stage, inputs: ForwardInputs, cache: StagedKvCache, index: number): Tensor {
    const { ops, model, layers, link } = stage;
    const numRows = inputs.positions.length;
    const hidden = link === null ? undefined : ops.receiveHidden(link, numRows, this.config.hiddenSize);
    const own = ofGroups(inputs, groupsOf(cache.shape, kvLayersOf(this.config, layers)));
    return model.forward({ ...own, hidden }, cache.stages[index]!);
  }
}

/** What a stage needs of the arrays of a step. Its tokens are known. */
function ofGroups(inputs: ForwardInputs, groups: readonly number[]): ForwardInputs {
  const { tokens, positions, slotMapping, batch } = inputs;
  const { numSequences, maxBlocks, blockTables } = batch;
  return {
    ...inputs,
    tokens: { ids: tokens.ids, sampled: null },
    slotMapping: selectGroups(slotMapping, groups, positions.length),
    batch: { ...batch, blockTables: selectGroups(blockTables, groups, numSequences * maxBlocks) },
  };
}

/** @param values [all groups, stride] */
function selectGroups(values: Int32Array, groups: readonly number[], stride: number): Int32Array {
  if (groups.length * stride === values.length) return values;
  const selected = new Int32Array(groups.length * stride);
  for (const [index, group] of groups.entries())
    selected.set(values.subarray(group * stride, (group + 1) * stride), index * stride);
  return selected;
}
