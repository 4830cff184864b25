// Linear attention by the gated delta rule: queries, keys and values pass a short convolution, a state takes the place of all keys and
// values before, and what is read of it passes a gate. Ranks share the heads.
// Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.

import type { Tensor } from '../../ops/ops.ts';
import type { Convolution, DeltaRule } from '../../ops/states.ts';
import type { Vector } from '../../ops/weights.ts';
import { convolutionWidth, deltaChannels, shareOfDelta } from '../state-shape.ts';
import { forgettingRates } from './forgetting-rates.ts';
import type { Block, LayerContext } from './layer.ts';
import type { ColumnParallelLinear, ColumnParallelLinears, RowParallelLinear } from './linear.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** Of the lengths of queries and keys, whatever config.json says of norms. */
const LENGTH_EPS = 1e-6;

/** The products of a layer, which checkpoints cut in different ways. */
export interface DeltaProjections {
  /** h -> queries, keys and values of the rank's heads side by side, then the gate of each value. */
  readonly values: ColumnParallelLinears;
  /** h -> writing, then forgetting, a number of each head. */
  readonly gates: ColumnParallelLinear;
}

/** @param prefix of the names of its tensors: conv1d, A_log (or rates), dt_bias, norm, out_proj. */
export function gatedDeltaNet(
  context: LayerContext,
  layer: number,
  prefix: string,
  projections: DeltaProjections,
): Block {
  const { config, weights } = context;
  const { keyHeads, keyDim, heads, valueDim } = config.recurrent!.delta!;
  const shared = [keyHeads * keyDim, keyHeads * keyDim, heads * valueDim];
  const output = weights.row({ name: `${prefix}.out_proj`, n: config.hiddenSize }, heads * valueDim);
  const net = new DeltaHeads(context, layer, {
    ...projections,
    convolution: weights.taps(`${prefix}.conv1d.weight`, { shared }, config.recurrent!.taps),
    rates: forgettingRates(context, prefix, heads),
    rateBias: weights.ownNumbers(`${prefix}.dt_bias`, heads),
    norm: weights.vector(`${prefix}.norm.weight`, valueDim),
    // A query is divided by the square root of its width, too.
    queryLength: weights.constant(keyDim, 1 / keyDim),
    keyLength: weights.constant(keyDim, 1 / Math.sqrt(keyDim)),
    output,
  });
  return productBlock({
    inputDType: projections.values.inputDType,
    inner: (step, h) => net.apply(step, h),
    output,
  });
}

interface DeltaParts extends DeltaProjections {
  /** [taps, channels] */
  readonly convolution: Vector;
  readonly rates: Vector;
  readonly rateBias: Vector;
  /** [valueDim] of each head of what is read. */
  readonly norm: Vector;
  /** [keyDim] what bring queries and keys to their lengths, as weights of norms. */
  readonly queryLength: Vector;
  readonly keyLength: Vector;
  readonly output: RowParallelLinear;
}

class DeltaHeads {
  readonly #parts: DeltaParts;
  readonly #convolution: Convolution;
  readonly #rule: DeltaRule;
  readonly #eps: number;

  constructor({ config, weights, cacheLayerOf }: LayerContext, layer: number, parts: DeltaParts) {
    const recurrent = config.recurrent!;
    const own = shareOfDelta(recurrent.delta!, weights.share);
    const place = { layer: cacheLayerOf(layer), first: 0 };
    this.#parts = parts;
    this.#eps = config.normEps;
    this.#convolution = { ...place, weight: parts.convolution, activation: 'silu' };
    this.#rule = {
      ...place,
      ...own,
      first: convolutionWidth(recurrent, deltaChannels(own)),
      rates: parts.rates,
      rateBias: parts.rateBias,
    };
  }

  /** -> [tokens, heads * valueDim] in the format of the output projection. */
  apply(step: Step, h: Tensor): Tensor {
    const { ops, inputs } = step;
    const { norm, output } = this.#parts;
    const { keyHeads, keyDim, heads, valueDim } = this.#rule;
    const [keys, values] = [keyHeads * keyDim, heads * valueDim];
    const [qkv, gate] = this.#parts.values.apply(step, h, [2 * keys + values, values]);
    const [writing, forgetting] = ops.split(this.#parts.gates.apply(step, h), [heads, heads]);
    const convolved = ops.convolve(qkv!, inputs, this.#convolution);
    const [q, k, v] = ops.split(convolved, [keys, keys, values]);
    this.#bringToLength(step, q!, k!);
    const tokens = { q: q!, k: k!, v: v!, forgetting: forgetting!, writing: writing! };
    const read = ops.gatedDelta(tokens, inputs, this.#rule);
    ops.qkNorm(read, norm, this.#eps);
    return ops.gate(read, gate!, 'silu', output.inputDType);
  }

  /** x / sqrt(sum(x²) + eps) of each head: a norm by the mean of squares with another factor. */
  #bringToLength({ ops }: Step, q: Tensor, k: Tensor): void {
    const eps = LENGTH_EPS / this.#rule.keyDim;
    ops.qkNorm(q, this.#parts.queryLength, eps);
    ops.qkNorm(k, this.#parts.keyLength, eps);
  }
}
