// The memory of a model's keys and values in all its stages, and what a transfer engine is told of it.

import type { KvCompatibility, KvMemoryPart } from '../kv-transfer/connector.ts';
import type { Model, ModelShape } from '../models/model.ts';
import { StagedKvCache, StagedModel } from '../models/staged-model.ts';
import { groupsOfRows, numKvRows } from '../ops/kv-rows.ts';
import type { KvCache, KvCacheShape, Ops } from '../ops/ops.ts';
import { stateBytes } from './kv-budget.ts';

export interface KvMemory {
  readonly cache: KvCache;
  /** [stages] Of its blocks and states. */
  readonly bytes: readonly number[];
  /** It for a transfer engine, by stages; empty where no other instance may read it. */
  readonly parts: readonly KvMemoryPart[];
  /** That of all ranks and stages together. */
  readonly layout: Pick<
    KvCompatibility,
    'layers' | 'layerGroups' | 'heads' | 'layerBlockBytes' | 'hasWholeRows'
  >;
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
  const rows = rowsOfStages(shape, caches);
  const { ranks } = stages[0]!;
  const numCuts = cutsOf(shape, model, ranks);
  const hasWholeRows = shape.layerHeads !== undefined;
  const numHeads = hasWholeRows ? 1 : shape.kvHeads;
  const firstHead = numCuts === 1 ? 0 : ranks.rank * numHeads;
  const heads = { first: firstHead, end: firstHead + numHeads };
  const part = (one: KvCache, stage: number): KvMemoryPart => {
    const first = rows.slice(0, stage).flat().length;
    const layers = { first, end: first + rows[stage]!.length };
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
      layers: rows.flat().length,
      layerGroups: rows.flat(),
      heads: numHeads * numCuts,
      layerBlockBytes: cache.layerBlockBytes * numCuts,
      hasWholeRows,
    },
  };
}

/** [stages] The groups of the rows that each has: to a transfer, layers that share a row are one. */
function rowsOfStages({ layerGroups }: KvCacheShape, caches: readonly KvCache[]): number[][] {
  let first = 0;
  return caches.map(({ shape }) => {
    const own = layerGroups?.slice(first, first + shape.layers);
    first += shape.layers;
    return groupsOfRows({ ...shape, layerGroups: own });
  });
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
