// Self-attention over the paged cache: queries, keys and values from one product, rotated by position.

import type { HeadNorms, Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { RopeConfig } from '../rope-config.ts';
import type { Block, LayerContext, LoadBlock } from './layer.ts';
import type { ColumnParallelLinears, RowParallelLinear } from './linear.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** q or k [tokens, heads of the rank * headDim] f32 -> the same, normalised; it may be done in place. */
export type QueryKeyNorm = (step: Step, x: Tensor) => Tensor;

interface AttentionParts {
  /** Queries, keys, values of this rank: [tokens, heads * headDim], [tokens, kvHeads * headDim] twice; then gates, if there are any. */
  readonly qkv: ColumnParallelLinears;
  /** Whether what the heads saw passes gates, [tokens, heads * headDim], which open by their sigmoid. */
  readonly hasGates?: boolean;
  readonly output: RowParallelLinear;
  /** Of each head by itself, with one weight for all queries and one for all keys. */
  readonly headNorms?: HeadNorms | undefined;
  /** Norms of another kind. */
  readonly queryNorm?: QueryKeyNorm | undefined;
  readonly keyNorm?: QueryKeyNorm | undefined;
  /** [heads] f32: a logit more in each row's softmax, of which nothing is taken. */
  readonly sinks?: Vector | undefined;
}

/** Under the names that most checkpoints use: q_proj, k_proj, v_proj, o_proj, q_norm, k_norm. */
export const loadAttention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    headNorms: context.config.hasHeadNorms ? headNorms(context, prefix) : undefined,
    output: outputProjection(context, `${prefix}.o_proj`),
  });

export function separateQkv({ config, weights }: LayerContext, prefix: string): ColumnParallelLinears {
  const { numHeads, numKvHeads, headDim, hiddenSize, qkvBias: bias } = config;
  return weights.columns(
    [
      { name: `${prefix}.q_proj`, n: numHeads * headDim, bias },
      { name: `${prefix}.k_proj`, n: numKvHeads * headDim, bias },
      { name: `${prefix}.v_proj`, n: numKvHeads * headDim, bias },
    ],
    hiddenSize,
  );
}

/** Queries, keys and values published as one tensor, in this order. */
export function fusedQkv(context: LayerContext, name: string, isTransposed = false): ColumnParallelLinears {
  const { numHeads, numKvHeads, headDim, hiddenSize, qkvBias: bias } = context.config;
  const shared = [numHeads, numKvHeads, numKvHeads].map((heads) => heads * headDim);
  const n = (numHeads + 2 * numKvHeads) * headDim;
  return context.weights.columns([{ name, n, bias, isTransposed, shared }], hiddenSize);
}

export function outputProjection(
  { config, weights }: LayerContext,
  name: string,
  isTransposed = false,
): RowParallelLinear {
  const { numHeads, headDim, hiddenSize, attentionOutputBias: bias } = config;
  return weights.row({ name, n: hiddenSize, bias, isTransposed }, numHeads * headDim);
}

export function headNorms({ config, weights }: LayerContext, prefix: string, weightOffset = 0): HeadNorms {
  const { headDim, normEps: eps } = config;
  const load = (name: string) => weights.vector(`${prefix}.${name}.weight`, headDim, weightOffset);
  return { query: load('q_norm'), key: load('k_norm'), eps };
}

export function attentionOf(context: LayerContext, layer: number, parts: AttentionParts): Block {
  const { qkv, output } = parts;
  const heads = new AttentionHeads(context, layer, parts);
  return productBlock({ inputDType: qkv.inputDType, inner: (step, h) => heads.apply(step, h), output });
}

class AttentionHeads {
  readonly #context: LayerContext;
  readonly #layer: number;
  /** Where its keys and values are. */
  readonly #kvLayer: number;
  readonly #parts: AttentionParts;
  /** Null where the layer knows no positions. */
  readonly #rope: RopeConfig | null;

  constructor(context: LayerContext, layer: number, parts: AttentionParts) {
    this.#context = context;
    this.#layer = layer;
    this.#kvLayer = context.cacheLayerOf(layer);
    this.#parts = parts;
    this.#rope = context.config.layerRopes[layer] ?? null;
  }

  /** What the heads saw: -> [tokens, heads * headDim] in the format of the output projection. */
  apply(step: Step, h: Tensor): Tensor {
    const { qkv, queryNorm, keyNorm, hasGates, output } = this.#parts;
    const { config, weights } = this.#context;
    const [heads, kvHeads] = [config.numHeads, config.numKvHeads].map((all) => weights.share.of(all).count);
    const counts = [heads!, kvHeads!, kvHeads!, ...(hasGates ? [heads!] : [])];
    const [q, k, v, gates] = qkv.apply(
      step,
      h,
      counts.map((count) => count * config.headDim),
    );
    const seen = this.#attend(step, queryNorm?.(step, q!) ?? q!, keyNorm?.(step, k!) ?? k!, v!);
    return gates === undefined ? seen : step.ops.gate(seen, gates, 'sigmoid', output.inputDType);
  }

  /** Norms of heads, rotation, storing k and v; and attends. */
  #attend({ ops, inputs }: Step, q: Tensor, k: Tensor, v: Tensor): Tensor {
    const {
      headDim,
      rotaryDim,
      ropeIsInterleaved,
      layerWindows,
      attentionScales,
      attentionSoftcap,
      encoder,
    } = this.#context.config;
    const layer = this.#kvLayer;
    const heads = { headDim, rotaryDim, isInterleaved: ropeIsInterleaved };
    const table = this.#rope === null ? undefined : this.#context.ropeTables.get(this.#rope)!;
    ops.prepareHeads(q, k, v, inputs, {
      layer,
      norms: this.#parts.headNorms,
      rotation: table && { table, heads },
    });
    return ops.attention(q, inputs, {
      layer,
      scale: attentionScales[this.#layer]!,
      isBidirectional: encoder !== null,
      window: layerWindows[this.#layer] ?? null,
      softcap: attentionSoftcap,
      sinks: this.#parts.sinks ?? null,
    });
  }
}
