// Self-attention over the paged cache: queries, keys and values from one product, rotated by position.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { ModelConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import type { ColumnParallelLinear, RowParallelLinear } from './linear.ts';
import type { Step } from './step.ts';

export class Attention {
  readonly #config: ModelConfig;
  readonly #layer: number;
  readonly #qkv: ColumnParallelLinear;
  readonly #output: RowParallelLinear;
  /** [headDim] each, where queries and keys are normalised head by head. */
  readonly #queryNorm: Vector | null;
  readonly #keyNorm: Vector | null;

  constructor(weights: WeightReader, prefix: string, config: ModelConfig, layer: number) {
    const { numHeads, numKvHeads, headDim, hiddenSize, qkvBias: bias } = config;
    const headNorm = (name: string) =>
      config.hasHeadNorms ? weights.vector(`${prefix}.${name}.weight`, headDim) : null;
    this.#config = config;
    this.#layer = layer;
    this.#qkv = weights.column(
      [
        { name: `${prefix}.q_proj`, n: numHeads * headDim, bias },
        { name: `${prefix}.k_proj`, n: numKvHeads * headDim, bias },
        { name: `${prefix}.v_proj`, n: numKvHeads * headDim, bias },
      ],
      hiddenSize,
    );
    this.#queryNorm = headNorm('q_norm');
    this.#keyNorm = headNorm('k_norm');
    const output = { name: `${prefix}.o_proj`, n: hiddenSize, bias: config.attentionOutputBias };
    this.#output = weights.row(output, numHeads * headDim);
  }

  get inputDType(): ComputeDType {
    return this.#qkv.inputDType;
  }

  /** h [tokens, hidden] in `inputDType`; the result is added to `addTo` [tokens, hidden] f32. */
  apply(step: Step, h: Tensor, { addTo }: { readonly addTo: Tensor }): void {
    const { ops } = step;
    const { numHeads, numKvHeads, headDim, rmsNormEps } = this.#config;
    const widths = [numHeads, numKvHeads, numKvHeads].map((heads) => heads * headDim);
    const [q, k, v] = ops.split(this.#qkv.apply(step, h), widths);
    if (this.#queryNorm !== null) ops.qkNorm(q!, this.#queryNorm, rmsNormEps);
    if (this.#keyNorm !== null) ops.qkNorm(k!, this.#keyNorm, rmsNormEps);
    this.#output.apply(step, this.#attend(step, q!, k!, v!), { addTo });
  }

  /** Rotates q and k, stores k and v, and attends: -> [tokens, heads * headDim] in the cache's dtype. */
  #attend(step: Step, q: Tensor, k: Tensor, v: Tensor): Tensor {
    const { ops, inputs, ropeTable } = step;
    const { headDim, rotaryDim, layerWindows } = this.#config;
    const layer = this.#layer;
    ops.rope(q, inputs, ropeTable, headDim, rotaryDim);
    ops.rope(k, inputs, ropeTable, headDim, rotaryDim);
    ops.storeKv(k, v, inputs, layer);
    const window = layerWindows[layer] ?? null;
    return ops.attention(q, inputs, { layer, scale: 1 / Math.sqrt(headDim), window });
  }
}
