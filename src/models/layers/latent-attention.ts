// Multi-head latent attention: the cache keeps one compressed vector a token for all heads, its latent, beside one rotated key.
//
// Keys and values of a head are products of the latent, k = W_UK c and v = W_UV c. Neither is ever computed: q·(W_UK c) is
// (W_UKᵀ q)·c, and the weighted sum of values is W_UV times that of latents. So all heads share one KV head, whose key is the
// latent and the rotated key side by side, and whose value is the same; prefill and decode compute alike. Ranks share the heads, and each
// has the latents of all tokens.
// Source: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", 2024, 2.1.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { RopeHeads, Tensor } from '../../ops/ops.ts';
import type { LinearWeight, Vector } from '../../ops/weights.ts';
import type { LatentConfig, ModelConfig } from '../model-config.ts';
import type { LayerContext, LoadBlock, RopeTables } from './layer.ts';
import type { ColumnParallelLinear } from './linear.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** Of the norms of compressed vectors, whatever config.json says of the others. */
const LATENT_EPS = 1e-6;

export const loadLatentAttention: LoadBlock = (context, layer, prefix) => {
  const { config, weights } = context;
  const { hiddenSize, numHeads, attentionOutputBias: bias } = config;
  const latent = config.latent!;
  const { rank, nopeDim, ropeDim, valueDim } = latent;
  const compressed = { name: `${prefix}.kv_a_proj_with_mqa`, n: rank + ropeDim, bias, shared: null };
  const heads = new LatentHeads(context, layer, latent, {
    queries: loadQueries(context, latent, prefix),
    compress: weights.column(compressed, hiddenSize),
    latentNorm: weights.vector(`${prefix}.kv_a_layernorm.weight`, rank),
    ...weights.latentHeads(`${prefix}.kv_b_proj`, { numHeads, rank, keyDim: nopeDim, valueDim }),
  });
  const output = weights.row({ name: `${prefix}.o_proj`, n: hiddenSize, bias }, numHeads * valueDim);
  return productBlock({
    inputDType: heads.inputDType,
    inner: (step, h) => step.ops.cast(heads.apply(step, h), output.inputDType),
    output,
  });
};

/** h -> [tokens, heads * (nopeDim + ropeDim)] f32 */
interface Queries {
  readonly inputDType: ComputeDType;
  apply(step: Step, h: Tensor): Tensor;
}

/** One product, or two with a norm between them. */
function loadQueries({ config, weights }: LayerContext, latent: LatentConfig, prefix: string): Queries {
  const { hiddenSize, numHeads, attentionOutputBias: bias } = config;
  const { nopeDim, ropeDim, queryRank } = latent;
  const n = numHeads * (nopeDim + ropeDim);
  if (queryRank === null) return weights.column({ name: `${prefix}.q_proj`, n }, hiddenSize);
  const down = weights.column({ name: `${prefix}.q_a_proj`, n: queryRank, bias, shared: null }, hiddenSize);
  const norm = weights.vector(`${prefix}.q_a_layernorm.weight`, queryRank);
  const up = weights.column({ name: `${prefix}.q_b_proj`, n }, queryRank);
  return {
    inputDType: down.inputDType,
    apply: (step, h) =>
      up.apply(step, step.ops.rmsNorm(down.apply(step, h), norm, LATENT_EPS, up.inputDType)),
  };
}

interface LatentParts {
  readonly queries: Queries;
  /** h -> the latent and the key that is rotated, [tokens, rank + ropeDim]. */
  readonly compress: ColumnParallelLinear;
  readonly latentNorm: Vector;
  /** Of each head, W_UKᵀ [rank, nopeDim] and W_UV [valueDim, rank]. */
  readonly keyWeights: readonly LinearWeight[];
  readonly valueWeights: readonly LinearWeight[];
}

class LatentHeads {
  readonly #config: ModelConfig;
  readonly #layer: number;
  /** Where its keys and values are. */
  readonly #kvLayer: number;
  readonly #latent: LatentConfig;
  readonly #parts: LatentParts;
  readonly #ropeTables: LayerContext['ropeTables'];

  constructor(
    { config, ropeTables, cacheLayerOf }: LayerContext,
    layer: number,
    latent: LatentConfig,
    parts: LatentParts,
  ) {
    this.#config = config;
    this.#layer = layer;
    this.#kvLayer = cacheLayerOf(layer);
    this.#latent = latent;
    this.#parts = parts;
    this.#ropeTables = ropeTables;
  }

  get inputDType(): ComputeDType {
    return this.#parts.queries.inputDType;
  }

  /** What the heads saw: -> f32 [tokens, heads * valueDim] */
  apply(step: Step, h: Tensor): Tensor {
    const { ops, inputs } = step;
    const { keyWeights, valueWeights } = this.#parts;
    const layer = this.#kvLayer;
    const scale = this.#config.attentionScales[this.#layer]!;
    const key = this.#key(step, h);
    ops.storeKv(key, null, inputs, layer);
    const seen = ops.attention(this.#query(step, h, keyWeights), inputs, { layer, scale, window: null });
    return ops.headLinear(seen, valueWeights, false);
  }

  /** The latent and the rotated key, [tokens, rank + ropeDim]. */
  #key(step: Step, h: Tensor): Tensor {
    const { ops } = step;
    const { rank, ropeDim } = this.#latent;
    const { compress, latentNorm } = this.#parts;
    const key = compress.apply(step, h);
    const [latent, rotated] = ops.split(key, [rank, ropeDim]);
    ops.qkNorm(latent!, latentNorm, LATENT_EPS);
    this.#rotate(step, rotated!, this.#tables.keys, { headDim: ropeDim });
    return key;
  }

  /** W_UKᵀ q and the rotated query of each head, [tokens, heads * (rank + ropeDim)]. */
  #query(step: Step, h: Tensor, keyWeights: readonly LinearWeight[]): Tensor {
    const { nopeDim, ropeDim } = this.#latent;
    const q = this.#parts.queries.apply(step, h);
    const { queries, unturned } = this.#tables;
    const headDim = nopeDim + ropeDim;
    this.#rotate(step, q, queries, { headDim, first: nopeDim });
    if (unturned) step.ops.rope(q, step.inputs, unturned, { headDim, rotaryDim: nopeDim });
    return step.ops.headLinear(q, keyWeights, true);
  }

  #rotate(
    { ops, inputs }: Step,
    x: Tensor,
    table: Vector,
    heads: Pick<RopeHeads, 'headDim' | 'first'>,
  ): void {
    const { rotaryDim, ropeIsInterleaved: isInterleaved } = this.#config;
    ops.rope(x, inputs, table, { ...heads, rotaryDim, isInterleaved });
  }

  get #tables(): RopeTables {
    return this.#ropeTables.get(this.#config.layerRopes[this.#layer]!)!;
  }
}
