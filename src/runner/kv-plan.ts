// How long contexts may be, and how many KV blocks there are, in the memory that is free at the time.

import type { EngineConfig } from '../config/engine-config.ts';
import { groupLayers } from '../models/layer-groups.ts';
import { divideLayers } from '../models/layer-range.ts';
import type { ModelShape } from '../models/model.ts';
import { stageShape } from '../models/staged-model.ts';
import {
  type CacheDesign,
  type CacheMemory,
  cacheBytes,
  cacheMemory,
  chooseNumBlocks,
  kvBlockBytes,
  longestFitting,
  type MemoryOps,
  numStateBlocks,
  receiveRoom,
  stateBytes,
} from './kv-budget.ts';
import { cutsOf } from './kv-memory.ts';
import { mostStates } from './state-counts.ts';

export type StagedDesign = CacheDesign & Required<Pick<CacheDesign, 'stages' | 'stateBlocks'>>;

/** What has memory already that keys and values cannot have. */
interface Taken {
  /** Of the draft model's own cache. */
  readonly draftBytes: number;
  /** Of the model and the draft model. */
  readonly weightBytes: number;
  /** [stages] What the largest steps took of a device's own memory; empty before they were computed. */
  readonly activationBytes: readonly number[];
  /** Of memory of the host, for each rank: what seeing the largest image will take. */
  readonly encoderBytes: number;
}

const NOTHING: Taken = { draftBytes: 0, weightBytes: 0, activationBytes: [], encoderBytes: 0 };

/** A plan never changes: as the start gets on, there are new ones, each beside what has been taken by then. */
export class KvPlan {
  readonly #config: EngineConfig;
  readonly #stages: readonly MemoryOps[];
  readonly #taken: Taken;
  readonly #numStates: number | null;

  /**
   * @param stages what the stages of the model are computed on; one where it is in one piece
   * @param numStates of sequences; null where that is for the plan to say, see `fittingStates`
   */
  constructor(
    config: EngineConfig,
    stages: readonly MemoryOps[],
    taken = NOTHING,
    numStates: number | null = null,
  ) {
    this.#config = config;
    this.#stages = stages;
    this.#taken = taken;
    this.#numStates = numStates;
  }

  beside(taken: Partial<Taken>): KvPlan {
    return new KvPlan(this.#config, this.#stages, { ...this.#taken, ...taken }, this.#numStates);
  }

  withStates(numStates: number): KvPlan {
    return new KvPlan(this.#config, this.#stages, this.#taken, numStates);
  }

  /** Null where the model or the memory decides. */
  get wantedLength(): number | null {
    const { maxModelLen } = this.#config;
    return maxModelLen === 'auto' ? null : maxModelLen;
  }

  maxModelLen(model: ModelShape): number {
    const length = this.wantedLength ?? model.config.maxPositionEmbeddings;
    if (this.#config.maxModelLen !== 'auto') return length;
    const design = this.design(model);
    return Math.min(
      ...this.#memories(model, design).map((memory) => longestFitting(this.#config, design, length, memory)),
    );
  }

  /** @throws ConfigError where not even one request of `maxModelLen` tokens fits. */
  numBlocks(model: ModelShape, maxModelLen: number): number {
    const design = this.design(model);
    return Math.min(
      ...this.#memories(model, design).map((memory) =>
        chooseNumBlocks(this.#config, design, maxModelLen, memory),
      ),
    );
  }

  /** Bytes of the host's memory for blocks of other instances, see `receiveRoom`. */
  receiveRoom(model: ModelShape, numBlocks: number, freeHostBytes: number): number {
    const { draftBytes, encoderBytes } = this.#taken;
    const ops = this.#stages.at(-1)!;
    const numRanks = ops.ranks.size;
    const isOfHost = ops.deviceMemory() === null;
    const ofCaches = isOfHost ? draftBytes + cacheBytes(this.design(model), numBlocks, numRanks) : 0;
    return receiveRoom(freeHostBytes, ofCaches, encoderBytes * numRanks);
  }

  /** Of a cache with one block. */
  design(model: ModelShape): StagedDesign {
    return this.#designFor(model, this.#numStates ?? this.fittingStates(model));
  }

  /** States of sequences: as many as anybody needs, where these take half of the memory at most; one at least. */
  fittingStates(model: ModelShape): number {
    const most = mostStates(this.#config);
    if (model.config.recurrent === null) return most;
    const one = this.#designFor(model, 1);
    const fitting = this.#memories(model, one).map((memory) =>
      Math.floor(memory.bytes / 2 / stateBytes(one, memory)),
    );
    return Math.max(1, Math.min(most, ...fitting));
  }

  #designFor(model: ModelShape, sequences: number): StagedDesign {
    const { blockSize, pipelineParallelSize, kvTransfer } = this.#config;
    const { ofLayers: layerGroups, windows } = groupLayers(model.config);
    const shape = { ...model.kvCacheShape({ blocks: 1, blockSize, sequences }), layerGroups };
    const ranges = divideLayers(model.config, pipelineParallelSize);
    const stages = ranges.map((layers) => stageShape(model.config, shape, layers));
    return { shape, windows, stages, stateBlocks: kvTransfer === null ? 0 : numStateBlocks(stages) };
  }

  /** That of each stage's GPU, or the one that all stages share. */
  #memories(model: ModelShape, { shape, stages }: StagedDesign): CacheMemory[] {
    const numCuts = cutsOf(shape, model, this.#stages[0]!.ranks);
    const bytesOfAll = kvBlockBytes(shape) * numCuts;
    const memories = this.#stages.map((ops, stage) => {
      const taken = { ...this.#taken, activationBytes: this.#taken.activationBytes[stage] ?? 0 };
      return cacheMemory(this.#config, ops, taken, {
        stage,
        ofBlock: kvBlockBytes(stages[stage]!) / bytesOfAll,
      });
    });
    return memories.some(({ stage }) => stage === null) ? memories.slice(-1) : memories;
  }
}
