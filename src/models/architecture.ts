// What svc must know of an architecture to serve it; `registry.ts` lists those that it knows.

import type { KvDType } from '../ops/dtype.ts';
import type { Ops } from '../ops/ops.ts';
import type { LayerRange } from './layer-range.ts';
import type { Model } from './model.ts';
import type { ConfigFile, ModelConfig } from './model-config.ts';
import type { TensorNames } from './tensor-names.ts';
import type { ImageEncoder, VisionContext } from './vision/image-encoder.ts';
import type { WeightReader } from './weights/weight-reader.ts';

export interface Architecture {
  readonly architectures: readonly string[];
  /**
   * The shape of the model; no weights are touched.
   * @throws ModelLoadError naming the file, the field and what was expected.
   */
  readonly readConfig: (file: ConfigFile) => ModelConfig;
  /** @throws ModelLoadError where a tensor is missing or does not fit the config. */
  readonly load: (context: LoadContext) => Promise<Model>;
  /** Loads the part that sees images, where the config has one; null where the checkpoint has none. The same errors. */
  readonly loadImageEncoder?: (context: VisionContext) => ImageEncoder | null;
}

export interface LoadContext {
  readonly config: ModelConfig;
  readonly ops: Ops;
  readonly weights: WeightReader;
  /** Those that are computed here: all, or those of one stage. */
  readonly layers: LayerRange;
  /** What the checkpoint calls the parts of the model. */
  readonly names: TensorNames;
  /** Of keys and values in the cache. */
  readonly kvDType: KvDType;
  /** What sees images; null where nothing does, or an earlier stage has it. */
  readonly imageEncoder: ImageEncoder | null;
  /** Longest context that may be served, in tokens. */
  readonly maxModelLen: number;
  /** Tells how much of it will be, once the weights are in memory; null is all. */
  readonly servedLength: (() => Promise<number>) | null;
  /** Says that this share of the work is done and what was read last; whoever shows it gets a turn. */
  readonly progress: (fraction: number, what: string) => Promise<void>;
}
