// AltUp (Baykal et al., 2023): the residual stream is several side by side. The blocks of a layer see one of them; before, each is guessed of
// all, and behind, each is corrected by what the blocks have made that was not guessed.

import type { Ops, Tensor } from '../../ops/ops.ts';
import type { LinearWeight, Vector } from '../../ops/weights.ts';
import type { LoadContext } from '../architecture.ts';
import type { ModelConfig } from '../model-config.ts';
import { rootOf } from '../tensor-names.ts';
import type { Layer, LayerContext, LoadLayer } from './layer.ts';
import { layerInputBlock } from './layer-inputs.ts';
import type { ColumnParallelLinear } from './linear.ts';
import { rmsNorm } from './norm.ts';
import type { Step } from './step.ts';

/** Of the square of a stream's magnitude, which others are divided by. */
const LEAST_SQUARE = 1e-5;

/** Every rank has all streams, and all products of them. */
export function loadStreams({ config, weights, names }: LoadContext): Streams {
  const { hiddenSize } = config;
  const root = rootOf(names, config);
  const others = Array.from({ length: config.streams!.count - 1 }, (_, index) => index);
  const projections = others.map((index) => ({
    name: `${root}altup_projections.${index}`,
    n: hiddenSize,
    shared: null,
  }));
  return new Streams(
    config,
    weights.unquantizedColumn(projections, hiddenSize),
    others.map((index) =>
      weights.classifier(`${root}altup_unembed_projections.${index}`, hiddenSize, hiddenSize, false),
    ),
  );
}

/** What makes streams of the embeddings, and one of them again. */
export class Streams {
  readonly #config: ModelConfig;
  /** [(streams - 1) * hidden, hidden] */
  readonly #projections: ColumnParallelLinear;
  /** [streams - 1] of [hidden, hidden] */
  readonly #unembedding: readonly LinearWeight[];

  constructor(config: ModelConfig, projections: ColumnParallelLinear, unembedding: readonly LinearWeight[]) {
    this.#config = config;
    this.#projections = projections;
    this.#unembedding = unembedding;
  }

  /** x [tokens, hidden] f32, the embeddings -> [tokens, streams * hidden] f32: these, and products of theirs of the same magnitude. */
  begin(step: Step, x: Tensor): Tensor {
    const { ops } = step;
    const others = this.#projections.apply(step, ops.cast(x, this.#projections.inputDType));
    return ops.joinStreams(x, others, LEAST_SQUARE);
  }

  /** x [rows, streams * hidden] f32 -> [rows, hidden] f32: the mean of the first and of products of the others, of its magnitude. */
  end({ ops }: Pick<Step, 'ops'>, x: Tensor): Tensor {
    const { hiddenSize: width } = this.#config;
    const [first, others] = ops.split(x, [width, x.cols - width]);
    const products = ops.headLinear(others!, this.#unembedding, false);
    const [sum, ...rest] = streamsOf(ops, ops.joinStreams(first!, products, LEAST_SQUARE), width);
    for (const stream of rest) ops.addScaled(sum!, stream, 1);
    ops.scale(sum!, 1 / (rest.length + 1));
    return sum!;
  }
}

/** Views of each. */
function streamsOf(ops: Ops, x: Tensor, width: number): Tensor[] {
  return ops.split(x, new Array<number>(x.cols / width).fill(width));
}

/** @param blocks what the layer does with the stream that it sees. */
export function alternatingLayer(blocks: LoadLayer): LoadLayer {
  return (context, index, prefix) => {
    const { hiddenSize: width } = context.config;
    const { count, active } = context.config.streams!;
    const { weights } = context;
    const name = `${prefix}.altup`;
    const numbersOf = loadRouter(context, name);
    // Bounds of coefficients (`altup_coef_clip`) are for training alone.
    const guess = weights.wholeVector(`${name}.prediction_coefs.weight`, [count * count, count]);
    const layer = blocks(context, index, prefix);
    const correction = weights.wholeVector(`${name}.correction_coefs.weight`, [count, count]);
    const addInput = ownInput(context, index, prefix);
    return (x, step) => {
      const { ops } = step;
      const seen = streamsOf(ops, x, width)[active]!;
      ops.addMixed(x, x, numbersOf(step, seen), { width, coefficients: guess, offset: 0 });
      const made = ops.cast(seen, 'f32');
      layer(made, step);
      const numbers = numbersOf(step, made);
      ops.addScaled(made, seen, -1);
      ops.addMixed(x, made, numbers, { width, coefficients: correction, offset: 1 });
      addInput(x, step);
    };
  };
}

/** x [tokens, hidden] f32 -> [tokens, streams] f32, the numbers between -1 and 1 that say how streams are mixed. */
function loadRouter({ config, weights }: LayerContext, name: string): (step: Step, x: Tensor) => Tensor {
  const { hiddenSize, normEps, streams } = config;
  const norm: Vector = weights.scaledVector(`${name}.router_norm.weight`, hiddenSize, 1 / hiddenSize);
  const router = { name: `${name}.modality_router`, n: streams!.count, shared: null };
  const product = weights.unquantizedColumn([router], hiddenSize);
  return (step, x) => {
    const { ops } = step;
    const numbers = product.apply(step, ops.rmsNorm(x, norm, normEps, product.inputDType));
    // tanh
    ops.softcap(numbers, 1);
    return numbers;
  };
}

/** What the active stream lets through of the layer's own input is added to all streams but the first. */
function ownInput(context: LayerContext, index: number, prefix: string): Layer {
  const { config, weights } = context;
  const { hiddenSize: width } = config;
  const { active, hasOutputScale } = config.streams!;
  // Checkpoints have it where it is not used, too.
  const scale = weights.vector(`${prefix}.altup.correct_output_scale`, width);
  const block = layerInputBlock(context, index, {
    gate: `${prefix}.per_layer_input_gate`,
    projection: `${prefix}.per_layer_projection`,
  });
  const after = rmsNorm(context, `${prefix}.post_per_layer_input_norm`);
  return (x, step) => {
    const { ops } = step;
    const streams = streamsOf(ops, x, width);
    const seen = streams[active]!;
    const dtype = block.inputDType;
    const h = hasOutputScale ? ops.scaleColumns(seen, scale, dtype) : ops.cast(seen, dtype);
    const added = after(step, block.apply(step, h), 'f32');
    for (const stream of streams.slice(1)) ops.addScaled(stream, added, 1);
  };
}
