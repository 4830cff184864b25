// Embeddings that a token has for each layer by itself: of the token, and of what the first layer sees of it. A layer adds to the stream
// what its own part lets through.

import type { Tensor, TokenIds } from '../../ops/ops.ts';
import type { LinearWeight, Vector } from '../../ops/weights.ts';
import type { LoadContext } from '../architecture.ts';
import type { ModelConfig } from '../model-config.ts';
import type { RankShare } from '../rank-share.ts';
import { rootOf } from '../tensor-names.ts';
import type { Block, LayerContext } from './layer.ts';
import type { ColumnParallelLinear } from './linear.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

export function loadLayerInputs({ config, weights, names }: LoadContext): LayerInputs {
  const { numLayers, hiddenSize } = config;
  const { width, tokens } = config.layerInputs!;
  const root = rootOf(names, config);
  const all = numLayers * width;
  return new LayerInputs(config, weights.share, {
    table: weights.embedding({ name: `${root}embed_tokens_per_layer`, n: tokens }, all),
    // Whole on every rank: each head of a norm is.
    projection: weights.column(
      { name: `${root}per_layer_model_projection`, n: all, shared: null },
      hiddenSize,
    ),
    norm: weights.vector(`${root}per_layer_projection_norm.weight`, width),
  });
}

interface LayerInputsParts {
  /** [tokens, layers * width] */
  readonly table: LinearWeight;
  readonly projection: ColumnParallelLinear;
  /** [width] */
  readonly norm: Vector;
}

export class LayerInputs {
  readonly #config: ModelConfig;
  readonly #share: RankShare;
  readonly #parts: LayerInputsParts;

  constructor(config: ModelConfig, share: RankShare, parts: LayerInputsParts) {
    this.#config = config;
    this.#share = share;
    this.#parts = parts;
  }

  /** x [tokens, hidden] f32, the embeddings -> of each layer f32 [tokens, width]. */
  apply(step: Step, tokens: TokenIds, x: Tensor): readonly Tensor[] {
    const { ops } = step;
    const { table, projection, norm } = this.#parts;
    const { numLayers, hiddenSize, normEps, vocabSize: total } = this.#config;
    const { width, tokens: count } = this.#config.layerInputs!;
    const inputs = projection.apply(step, ops.cast(x, projection.inputDType));
    ops.scale(inputs, 1 / Math.sqrt(hiddenSize));
    ops.qkNorm(inputs, norm, normEps);
    const own = ops.embedding(tokens, table, { first: this.#share.of(count).first, total });
    ops.sumRanks(own);
    ops.addScaled(inputs, own, Math.sqrt(width));
    ops.scale(inputs, Math.SQRT1_2);
    return ops.split(inputs, new Array<number>(numLayers).fill(width));
  }
}

/** projection(activation(gate(h)) * the layer's input) */
export function layerInputBlock(
  { config, weights }: LayerContext,
  layer: number,
  { gate: gateName, projection }: { readonly gate: string; readonly projection: string },
): Block {
  const { hiddenSize, activation } = config;
  const { width } = config.layerInputs!;
  const gate = weights.column({ name: gateName, n: width }, hiddenSize);
  const output = weights.row({ name: projection, n: hiddenSize }, width);
  const widths = weights.share.widths(width);
  return productBlock({
    inputDType: gate.inputDType,
    inner: (step, h) => {
      const { ops, layerInputs } = step;
      const own = ops.split(layerInputs![layer]!, widths)[ops.ranks.rank]!;
      const opened = ops.activate(gate.apply(step, h), activation, 'f32');
      return ops.gate(opened, own, 'identity', output.inputDType);
    },
    output,
  });
}
