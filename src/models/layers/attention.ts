// Self-attention over the paged cache: queries, keys and values from one product, rotated by position.

import type { AttentionOptions, HeadNorms, HeadPreparation, Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import { layerHeadsOf, type ModelConfig } from '../model-config.ts';
import type { Block, LayerContext, LoadBlock } from './layer.ts';
import type { ColumnParallelLinear, ColumnParallelLinears, RowParallelLinear } from './linear.ts';
import { type NormOfColumns, rmsNormOfColumns } from './norm.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** q or k [tokens, heads of the rank * headDim] f32 -> the same, normalised; it may be done in place. */
export type QueryKeyNorm = (step: Step, x: Tensor) => Tensor;

/** The norm of heads of one kind, with one weight [headDim] for all. */
export interface HeadNorm {
  readonly weight: Vector;
  readonly eps: number;
}

interface AttentionParts {
  /**
   * Queries, keys, values of this rank: [tokens, heads * headDim], [tokens, kvHeads * headDim] twice; then gates, if there are any. There
   * are no values where the layer makes them of its keys.
   */
  readonly qkv: ColumnParallelLinears;
  /** Bound of all numbers of queries, keys and values, of either sign; left out or null, none. */
  readonly clip?: number | null;
  /** Whether what the heads saw passes gates, [tokens, heads * headDim], which open by their sigmoid. */
  readonly hasGates?: boolean;
  readonly output: RowParallelLinear;
  /** Of what the heads saw. */
  readonly innerNorm?: NormOfColumns | undefined;
  /** Of each head by itself, with one weight for all queries and one for all keys. */
  readonly headNorms?: HeadNorms | undefined;
  /** Whether heads are rotated before these norms; left out, behind them. */
  readonly rotatesFirst?: boolean;
  /** Norms of another kind. */
  readonly queryNorm?: QueryKeyNorm | undefined;
  readonly keyNorm?: QueryKeyNorm | undefined;
  /** Of each head of values by itself. */
  readonly valueNorm?: HeadNorm | undefined;
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

/** Without norms, each head with a sink: `prefix.sinks`. */
export const loadSinkAttention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    output: outputProjection(context, `${prefix}.o_proj`),
    sinks: context.weights.ownNumbers(`${prefix}.sinks`, context.config.numHeads),
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

export function headNorms(
  { config, weights }: LayerContext,
  prefix: string,
  { query = 'q_norm', key = 'k_norm', weightOffset = 0 } = {},
): HeadNorms {
  const { headDim, normEps: eps } = config;
  const load = (name: string) => weights.vector(`${prefix}.${name}.weight`, headDim, weightOffset);
  return { query: load(query), key: load(key), eps };
}

/** Over all heads together. */
export function normOfAllHeads(context: LayerContext, name: string, heads: number): QueryKeyNorm {
  const norm = rmsNormOfColumns(context, name, heads * context.config.headDim);
  return (step, x) => norm(step, x, 'f32');
}

/** Layer norms without bias. @param weight [heads of the rank * headDim], a row for each head */
export function layerNormOfHeads({ headDim, normEps }: ModelConfig, weight: Vector): QueryKeyNorm {
  return ({ ops }, x) => {
    ops.headLayerNorm(x, weight, headDim, normEps);
    return x;
  };
}

export function attentionOf(context: LayerContext, layer: number, parts: AttentionParts): Block {
  const { qkv, output, innerNorm } = parts;
  const heads = new AttentionHeads(context, layer, parts);
  const inner = (step: Step, h: Tensor) => heads.apply(step, h);
  return productBlock({ inputDType: qkv.inputDType, inner, innerNorm, output });
}

class AttentionHeads {
  readonly #context: LayerContext;
  readonly #layer: number;
  /** Where its keys and values are. */
  readonly #kvLayer: number;
  readonly #parts: AttentionParts;

  constructor(context: LayerContext, layer: number, parts: AttentionParts) {
    this.#context = context;
    this.#layer = layer;
    this.#kvLayer = context.cacheLayerOf(layer);
    this.#parts = parts;
  }

  /** What the heads saw: -> [tokens, heads * headDim] in the format of the output projection. */
  apply(step: Step, h: Tensor): Tensor {
    const { qkv, clip, queryNorm, keyNorm, valueNorm, hasGates, output } = this.#parts;
    const { config, weights } = this.#context;
    const { kvHeads: all, headDim, valuesAreKeys } = layerHeadsOf(config, this.#layer);
    const [heads, kvHeads] = [config.numHeads, all].map((count) => weights.share.of(count).count * headDim);
    const widths = [heads!, kvHeads!, ...(valuesAreKeys ? [] : [kvHeads!]), ...(hasGates ? [heads!] : [])];
    const [q, k, ...others] = qkv.apply(step, h, widths);
    // A copy: the norms of keys and of values differ.
    const [v, gates] = valuesAreKeys ? [step.ops.cast(k!, 'f32'), ...others] : others;
    if (clip) for (const x of [q!, k!, v!]) step.ops.clip(x, -clip, clip);
    if (valueNorm) step.ops.qkNorm(v!, valueNorm.weight, valueNorm.eps);
    const seen = this.#attend(step, queryNorm?.(step, q!) ?? q!, keyNorm?.(step, k!) ?? k!, v!);
    return gates === undefined ? seen : step.ops.gate(seen, gates, 'sigmoid', output.inputDType);
  }

  /** Norms of heads, rotation, storing k and v; and attends. */
  #attend({ ops, inputs }: Step, q: Tensor, k: Tensor, v: Tensor): Tensor {
    const { headNorms: norms, rotatesFirst } = this.#parts;
    const rotation = rotationOf(this.#context, this.#layer);
    const growth = rotation ? null : this.#context.growthTable();
    const layer = this.#kvLayer;
    if (growth)
      ops.rope(q, inputs, growth, { headDim: layerHeadsOf(this.#context.config, this.#layer).headDim });
    if (rotatesFirst && norms && rotation) {
      ops.rope(q, inputs, rotation.queries, rotation.heads);
      ops.rope(k, inputs, rotation.keys, rotation.heads);
      ops.qkNorm(q, norms.query, norms.eps);
      ops.qkNorm(k, norms.key, norms.eps);
      ops.storeKv(k, v, inputs, layer);
    } else {
      ops.prepareHeads(q, k, v, inputs, { layer, norms, rotation });
    }
    return ops.attention(q, inputs, {
      ...sightOf(this.#context, this.#layer),
      sinks: this.#parts.sinks ?? null,
    });
  }
}

/** Undefined where the layer knows no positions. */
function rotationOf({ config, ropeTables }: LayerContext, layer: number): HeadPreparation['rotation'] {
  const rope = config.layerRopes[layer] ?? null;
  if (rope === null) return undefined;
  const { headDim, rotaryDim } = layerHeadsOf(config, layer);
  const { queries, keys } = ropeTables.get(rope)!;
  return {
    queries,
    keys,
    heads: {
      headDim,
      rotaryDim,
      isInterleaved: config.ropeIsInterleaved,
      sections: config.ropeSections ?? undefined,
    },
  };
}

/** What the queries of a layer see, and how they weigh it. */
function sightOf({ config, cacheLayerOf }: LayerContext, layer: number): AttentionOptions {
  const window = config.layerWindows[layer] ?? null;
  return {
    layer: cacheLayerOf(layer),
    scale: config.attentionScales[layer]!,
    isBidirectional: seesAhead(config, window),
    window: config.windowsAreChunks ? null : window,
    chunk: config.windowsAreChunks ? window : null,
    softcap: config.attentionSoftcap,
  };
}

/** Undefined where tokens of images alone may see those after them. */
function seesAhead({ encoder, vision }: ModelConfig, window: number | null): boolean | undefined {
  if (encoder !== null) return true;
  return vision?.wholeInWindows && window === null ? false : undefined;
}

interface QueryParts {
  /** h -> the queries of this rank, [tokens, heads * headDim] */
  readonly queries: ColumnParallelLinear;
  readonly norm: HeadNorm;
  readonly output: RowParallelLinear;
}

/** Of a layer without keys and values: its queries see those of an earlier one, which has stored them. */
export function sharedKeyAttention(
  context: LayerContext,
  layer: number,
  { queries, norm, output }: QueryParts,
): Block {
  return productBlock({
    inputDType: queries.inputDType,
    inner: (step, h) => {
      const { ops, inputs } = step;
      const q = queries.apply(step, h);
      ops.qkNorm(q, norm.weight, norm.eps);
      const rotation = rotationOf(context, layer);
      if (rotation) ops.rope(q, inputs, rotation.queries, rotation.heads);
      return ops.attention(q, inputs, sightOf(context, layer));
    },
    output,
  });
}
