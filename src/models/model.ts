// What the runner needs of a loaded model: its shape and the forward pass of one step.

import type { ComputeDType, KvDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, StepArrays, Tensor, TokenIds } from '../ops/ops.ts';
import type { LoraTarget } from './adapters/lora-target.ts';
import type { CacheSize } from './kv-cache-shape.ts';
import type { ModelConfig } from './model-config.ts';
import type { PoolingHead } from './pooling/pooling-head.ts';
import type { ImageEncoder } from './vision/image-encoder.ts';

/** One step over the flattened batch: the tokens of all sequences in a row. */
export interface ForwardInputs extends StepArrays {
  /** [tokens] */
  readonly tokens: TokenIds;
  /** f32 [tokens, hidden] as the layers before left them, where these are of an earlier stage; they are changed. */
  readonly hidden?: Tensor | undefined;
  /** [tokens] which of the texts of its sequence a token belongs to, 0 or 1; left out, all are of the first. */
  readonly tokenTypes?: Int32Array | undefined;
  /** Tokens of images: what is in the place of their embeddings. Left out where there are none. */
  readonly imageRows?: ImageRows | undefined;
  /** Called after the ops of each layer. */
  readonly onLayer?: ((layer: number) => void) | undefined;
}

export interface ImageRows {
  /** [n] rows of the step */
  readonly rows: readonly number[];
  /** [n, (1 + layers) * hidden]: what is in the place of embeddings, then what is added behind each of the first layers. */
  readonly values: Float32Array;
}

/** What is known of a model before its weights are. */
export interface ModelShape {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  /** Of keys and values in the cache. */
  readonly kvDType: KvDType;
  kvCacheShape(size: CacheSize): KvCacheShape;
}

export interface Model extends ModelShape {
  /** Names of the formats of its layers' products, see `formatName`; joined by + where there are several. */
  readonly weightFormat: string;
  /** Packed bytes that a decode step streams through the processor, of experts those that are not chosen too. */
  readonly weightBytes: number;
  /**
   * Contexts of up to so many tokens are rotated otherwise than longer ones; null where all are alike. In `positions` of the
   * inputs, the tokens of a longer context begin at this number.
   */
  readonly shortContext: number | null;
  /** The products that adapters may add to. */
  readonly loraTargets: readonly LoraTarget[];
  /** What sees images; null where the model only reads text. */
  readonly imageEncoder: ImageEncoder | null;
  /** What it makes of the states that stand for sequences; null where these are the result, or where it generates. */
  readonly poolingHead: PoolingHead | null;
  /** @returns f32 hidden states [tokens, hidden], of all streams where there are several, valid until the enclosing `ops.scope` ends. */
  forward(inputs: ForwardInputs, cache: KvCache): Tensor;
  /**
   * @returns f32 logits [rows, vocab] of those rows of the hidden states, valid as long, in a rank that is not the first only its own
   * columns of them; of a pooling model the rows after its last norm, [rows, hidden].
   */
  logits(hidden: Tensor, rows: Int32Array): Tensor;
}
