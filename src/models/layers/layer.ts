// What a layer and its blocks do, and what they are loaded from.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { ModelConfig } from '../model-config.ts';
import type { RopeConfig } from '../rope-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import type { Step } from './step.ts';

/** What the layers of a model are loaded from. */
export interface LayerContext {
  readonly config: ModelConfig;
  readonly weights: WeightReader;
  /** For each kind of rotation that the layers have, before the first step. */
  readonly ropeTables: ReadonlyMap<RopeConfig, RopeTables>;
  /** Of layers without positions, where their queries grow: a table of `ops.rope` that only multiplies, before the first step. */
  readonly growthTable: () => Vector | null;
  /** Which layer of the cache has the keys and values, or the state, of a layer. */
  readonly cacheLayerOf: (layer: number) => number;
}

/** The tables of `ops.rope` of one kind of rotation; the same one where queries are turned as keys are. */
export interface RopeTables {
  readonly queries: Vector;
  readonly keys: Vector;
  /** Of what is not turned of the queries of latent attention, where they grow: it only multiplies. */
  readonly unturned: Vector | null;
}

/** One layer: x [tokens, hidden] f32, the residual stream, is updated in place. */
export type Layer = (x: Tensor, step: Step) => void;

/** @param prefix the names of the layer's tensors begin with it and a dot. */
export type LoadLayer = (context: LayerContext, layer: number, prefix: string) => Layer;

/** What a layer adds to the residual stream: attention, or a feed-forward. */
export interface Block {
  /** The format that it wants its input in. */
  readonly inputDType: ComputeDType;
  /** h [tokens, hidden] in `inputDType` -> f32 [tokens, hidden]. */
  apply(step: Step, h: Tensor): Tensor;
  /** The same, added to x [tokens, hidden] f32. */
  addTo(x: Tensor, step: Step, h: Tensor): void;
}

/** @param prefix the names of the block's tensors begin with it and a dot. */
export type LoadBlock = (context: LayerContext, layer: number, prefix: string) => Block;
