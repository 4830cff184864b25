// The KV cache that a model needs.

import type { KvDType } from '../ops/dtype.ts';
import type { KvCacheShape } from '../ops/ops.ts';
import type { ModelConfig } from './model-config.ts';
import { type RankShare, WHOLE } from './rank-share.ts';
import { keepsKeys, numKvLayers } from './recurrent-layers.ts';
import { stateShape } from './state-shape.ts';

/** How much a cache holds. */
export interface CacheSize {
  readonly blocks: number;
  readonly blockSize: number;
  /** That have a state at the same time, where layers keep one. */
  readonly sequences: number;
}

export function kvCacheShape(
  config: ModelConfig,
  dtype: KvDType,
  { blocks, blockSize, sequences }: CacheSize,
  share: RankShare = WHOLE,
): KvCacheShape {
  const { numKvHeads, headDim, latent } = config;
  const kvHeads = latent === null ? share.of(numKvHeads).count : numKvHeads;
  const layerHeads = config.layerHeads
    ?.filter((_, layer) => keepsKeys(config, layer))
    .map((heads) => ({ kvHeads: share.of(heads.kvHeads).count, headDim: heads.headDim }));
  const states = stateShape(config, sequences, share);
  return {
    layers: numKvLayers(config),
    blocks,
    blockSize,
    kvHeads,
    headDim,
    dtype,
    keysAreValues: latent !== null,
    ...(layerHeads && { layerHeads }),
    ...(states && { states }),
  };
}
