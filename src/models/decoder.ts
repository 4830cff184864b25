// A decoder-only language model: embeddings, layers, final norm, and logits for the rows that are asked for.

import type { ComputeDType } from '../ops/dtype.ts';
import type { KvCache, KvCacheShape, LinearWeight, Ops, Tensor, Vector } from '../ops/ops.ts';
import type { Layer, Step } from './layers/step.ts';
import type { ForwardInputs, Model } from './model.ts';
import type { ModelConfig } from './model-config.ts';

export interface DecoderParts {
  /** [vocab, hidden] */
  readonly embedding: LinearWeight;
  readonly layers: readonly Layer[];
  readonly finalNorm: Vector;
  /** [vocab, hidden]; the very embeddings where the two are tied. */
  readonly head: LinearWeight;
  readonly ropeTable: Vector;
}

export function kvCacheShape(
  { numLayers: layers, numKvHeads: kvHeads, headDim }: ModelConfig,
  dtype: ComputeDType,
  blocks: number,
  blockSize: number,
): KvCacheShape {
  return { layers, blocks, blockSize, kvHeads, headDim, dtype };
}

export class Decoder implements Model {
  readonly config: ModelConfig;
  readonly dtype: ComputeDType;
  readonly weightBytes: number;
  private readonly ops: Ops;
  private readonly parts: DecoderParts;

  constructor(
    config: ModelConfig,
    ops: Ops,
    parts: DecoderParts,
    weights: { readonly dtype: ComputeDType; readonly packedBytes: number },
  ) {
    this.config = config;
    this.ops = ops;
    this.parts = parts;
    this.dtype = weights.dtype;
    this.weightBytes = weights.packedBytes;
  }

  kvCacheShape(blocks: number, blockSize: number): KvCacheShape {
    return kvCacheShape(this.config, this.dtype, blocks, blockSize);
  }

  forward(inputs: ForwardInputs, cache: KvCache): Tensor {
    const { ops, parts } = this;
    const step: Step = { ops, inputs: ops.beginStep(cache, inputs), ropeTable: parts.ropeTable };
    const x = ops.embedding(inputs.tokens, parts.embedding);
    for (const [index, layer] of parts.layers.entries()) {
      ops.scope(() => layer(x, step));
      inputs.onLayer?.(index);
    }
    return x;
  }

  logits(hidden: Tensor, rows: Int32Array): Tensor {
    const { ops, parts } = this;
    const wanted = ops.gatherRows(hidden, rows);
    return ops.linear(ops.rmsNorm(wanted, parts.finalNorm, this.config.rmsNormEps, this.dtype), parts.head);
  }
}
