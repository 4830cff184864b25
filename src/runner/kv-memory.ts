// The memory of a model's keys and values in all its stages, and what a transfer engine is told of it.

import type { KvCompatibility, KvMemoryPart } from '../kv-transfer/connector.ts';
import type { Model, ModelShape } from '../models/model.ts';
import { StagedKvCache, StagedModel } from '../models/staged-model.ts';
import { numKvRows } from '../ops/kv-rows.ts';
import type { KvCache, KvCacheShape, Ops } from '../ops/ops.ts';
import { stateBytes } from './kv-budget.ts';

export interface KvMemory {
  readonly cache: KvCache;
  /** [stages] Of its blocks and states. */
  readonly bytes: readonly number[];
  /** It for a transfer engine, by stages; empty where no other instance may read it. */
  readonly parts: readonly KvMemoryPart[];
  /** That of all ranks and stages together. */
  readonly layout: Pick<KvCompatibility, 'layers' | 'layerGroups' | 'heads' | 'layerBlockBytes'>;
}

/**
 * @param shape of the cache, with the heads of this rank and the layers of all stages
 * @param isShared whether a transfer engine gets it
 */
export function takeKvMemory(
  stages: readonly Ops[],
  model: Model,
  shape: KvCacheShape,
  isShared: boolean,
): KvMemory {
  const cache = makeKvCache(stages, model, shape, isShared);
  const caches = cache instanceof StagedKvCache ? cache.stages : [cache];
  const numLayers = caches.map((one) => one.shape.layers);
  const { ranks } = stages[0]!;
  const numCuts = cutsOf(shape, model, ranks);
  const firstHead = numCuts === 1 ? 0 : ranks.rank * shape.kvHeads;
  const heads = { first: firstHead, end: firstHead + shape.kvHeads };
  const part = (one: KvCache, stage: number): KvMemoryPart => {
    const first = sum(numLayers.slice(0, stage));
    const layers = { first, end: first + numLayers[stage]! };
    return { layers, heads, token: stages[stage]!.shareKvMemory(one) };
  };
  return {
    cache,
    bytes: caches.map((one) => {
      const states = stateBytes({ shape: one.shape, windows: [] }, { numRanks: 1, stage: null });
      return shape.blocks * numKvRows(one.shape) * one.layerBlockBytes + states;
    }),
    parts: isShared ? caches.map(part) : [],
    layout: {
      layers: shape.layers,
      layerGroups: shape.layerGroups,
      heads: shape.kvHeads * numCuts,
      layerBlockBytes: cache.layerBlockBytes * numCuts,
    },
  };
}

/** Among how many ranks a block is divided; heads that cannot be cut, as those of latent attention, are whole on every rank. */
export function cutsOf(
  { kvHeads }: Pick<KvCacheShape, 'kvHeads'>,
  { config }: Pick<ModelShape, 'config'>,
  ranks: Ops['ranks'],
): number {
  return kvHeads === config.numKvHeads ? 1 : ranks.size;
}

/** @param shape as for `takeKvMemory` */
export function makeKvCache(
  stages: readonly Ops[],
  model: Model,
  shape: KvCacheShape,
  isShared = false,
): KvCache {
  return model instanceof StagedModel
    ? model.makeKvCache(shape, isShared)
    : stages[0]!.makeKvCache(shape, isShared);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
