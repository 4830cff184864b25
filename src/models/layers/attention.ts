// What every attention layer here does alike: the fused projection, and from its result to what the heads saw.

import type { LinearWeight, Ops, Tensor } from '../../ops/ops.ts';
import type { ModelConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import type { Step } from './step.ts';

/** Queries, keys and values in one matrix, [(heads + 2 * kvHeads) * headDim, hidden]. */
export function loadQkv(
  weights: WeightReader,
  prefix: string,
  config: ModelConfig,
  bias = false,
): LinearWeight {
  const { numHeads, numKvHeads, headDim, hiddenSize } = config;
  const parts = [
    { name: `${prefix}.q_proj`, n: numHeads * headDim, bias },
    { name: `${prefix}.k_proj`, n: numKvHeads * headDim, bias },
    { name: `${prefix}.v_proj`, n: numKvHeads * headDim, bias },
  ];
  return weights.linear(parts, hiddenSize);
}

/** The projection back to the residual stream, [hidden, heads * headDim]. */
export function loadAttentionOutput(
  weights: WeightReader,
  prefix: string,
  config: ModelConfig,
  bias = false,
): LinearWeight {
  const { numHeads, headDim, hiddenSize } = config;
  return weights.linear([{ name: `${prefix}.o_proj`, n: hiddenSize, bias }], numHeads * headDim);
}

/** qkv [tokens, (heads + 2 * kvHeads) * headDim] -> views q, k, v. */
export function splitQkv(ops: Ops, qkv: Tensor, config: ModelConfig): [q: Tensor, k: Tensor, v: Tensor] {
  const { numHeads, numKvHeads, headDim } = config;
  const [q, k, v] = ops.split(qkv, [numHeads * headDim, numKvHeads * headDim, numKvHeads * headDim]);
  return [q!, k!, v!];
}

/** Rotates q and k, stores k and v, and attends: -> [tokens, heads * headDim] in the cache's dtype. */
export function attend(
  step: Step,
  [q, k, v]: readonly [Tensor, Tensor, Tensor],
  config: ModelConfig,
  layer: number,
): Tensor {
  const { ops, inputs, ropeTable } = step;
  const { headDim, rotaryDim, layerWindows } = config;
  ops.rope(q, inputs, ropeTable, headDim, rotaryDim);
  ops.rope(k, inputs, ropeTable, headDim, rotaryDim);
  ops.storeKv(k, v, inputs, layer);
  const window = layerWindows[layer] ?? null;
  return ops.attention(q, inputs, { layer, scale: 1 / Math.sqrt(headDim), window });
}
