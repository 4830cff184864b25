// How long contexts may be, and how many KV blocks there are, in the memory that is free at the time.

import type { EngineConfig } from '../config/engine-config.ts';
import { groupLayers } from '../models/layer-groups.ts';
import { divideLayers } from '../models/layer-range.ts';
import type { ModelShape } from '../models/model.ts';
import { stageShape } from '../models/staged-model.ts';
import {
  type CacheDesign,
  type CacheMemory,
  cacheMemory,
  chooseNumBlocks,
  longestFitting,
  type MemoryOps,
} from './kv-budget.ts';
import { cutsOf } from './kv-memory.ts';

export class KvPlan {
  readonly #config: EngineConfig;
  readonly #ops: MemoryOps;
  /** What the draft model will take for its own cache. */
  draftBytes = 0;
  /** Of the model and the draft model. */
  weightBytes = 0;
  /** What the largest steps took of a device's own memory. */
  activationBytes = 0;

  constructor(config: EngineConfig, ops: MemoryOps) {
    this.#config = config;
    this.#ops = ops;
  }

  /** Null where the model or the memory decides. */
  get wantedLength(): number | null {
    const { maxModelLen } = this.#config;
    return maxModelLen === 'auto' ? null : maxModelLen;
  }

  maxModelLen(model: ModelShape): number {
    const length = this.wantedLength ?? model.config.maxPositionEmbeddings;
    if (this.#config.maxModelLen !== 'auto') return length;
    return longestFitting(this.#config, this.design(model), length, this.#memory(model));
  }

  /** @throws ConfigError where not even one request of `maxModelLen` tokens fits. */
  numBlocks(model: ModelShape, maxModelLen: number): number {
    return chooseNumBlocks(this.#config, this.design(model), maxModelLen, this.#memory(model));
  }

  /** Of a cache with one block. */
  design(model: ModelShape): CacheDesign {
    const { ofLayers: layerGroups, windows } = groupLayers(model.config);
    const shape = { ...model.kvCacheShape(1, this.#config.blockSize), layerGroups };
    const ranges = divideLayers(model.config, this.#config.pipelineParallelSize);
    return { shape, windows, stages: ranges.map((layers) => stageShape(shape, layers)) };
  }

  #memory(model: ModelShape): CacheMemory {
    const shape = model.kvCacheShape(1, this.#config.blockSize);
    return cacheMemory(this.#config, this.#ops, this, cutsOf(shape, model, this.#ops.ranks));
  }
}
