// The encoder of Gemma 4: a transformer over the patches of an image in its own form, with norms on both sides of its blocks. Half of each
// head turns by the column of a patch, the other half by its line; both are learned, too (Google DeepMind, 2026).

import type { ImageTile } from '../../images/image-processor.ts';
import type { Ops, Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { Layer } from '../layers/layer.ts';
import { type Norm, rmsNorm } from '../layers/norm.ts';
import { inOrder } from '../layers/residual.ts';
import { ropeTable } from '../layers/rope.ts';
import type { Step } from '../layers/step.ts';
import { product } from '../pooling/pooling-head.ts';
import { boundedProduct, type Product } from './bounded-product.ts';
import { ImageEncoder, type ImageEncoderParts, type Projector, type VisionContext } from './image-encoder.ts';

/** What it makes is null where a release has left the encoder out. */
export function loadGemma4Vision(context: VisionContext): ImageEncoder | null {
  const { config, weights } = context;
  const root = ['model.', ''].find((one) => !weights.lacks(`${one}vision_tower.patch_embedder.input_proj`));
  if (root === undefined) return null;
  const { patchSize, layers } = config;
  const tower = `${root}vision_tower`;
  const rotation = loadRotation(context);
  return new ImageEncoder(context, {
    patches: weights.pixelPatches(`${tower}.patch_embedder.input_proj`, layers.hiddenSize, patchSize, false),
    begin: loadPositions(context, `${tower}.patch_embedder.position_embedding_table`),
    layers: Array.from({ length: layers.numLayers }, (_, index) =>
      loadLayer(context, rotation, `${tower}.encoder.layers.${index}`),
    ),
    order: 'mean',
    project: loadProjector(context, tower, `${root}embed_vision.embedding_projection`),
  });
}

/** Patches that a line or a column has at most: an image may be as narrow as a token. */
function longestSide({ config, mostPatches = Number.POSITIVE_INFINITY }: VisionContext): number {
  const most = Math.min(config.patchesPerSide ** 2, mostPatches);
  return Math.min(config.positionsPerSide!, Math.floor(most / config.mergeSize));
}

/** Adds a learned row of the column of each patch and one of its line, which are published as [2, positions, hidden]. */
function loadPositions(context: VisionContext, name: string): ImageEncoderParts['begin'] {
  const { config, weights } = context;
  const { hiddenSize } = config.layers;
  const most = longestSide(context);
  const all = weights.numbers(name, [2, config.positionsPerSide!, hiddenSize]);
  const [columns, lines] = [0, all.length / 2].map((first) => all.slice(first, first + most * hiddenSize));
  return (x, tile, { ops }) => {
    if (Math.max(tile.rows, tile.cols) > most)
      throw new Error(`a tile has at most ${most} patches on a side, not ${tile.rows} x ${tile.cols}`);
    const positions = crossed(lines!, columns!, tile, hiddenSize);
    ops.scope(() => ops.addScaled(x, ops.tensor(positions, x.rows, x.cols, 'f32'), 1));
    return x;
  };
}

/** @returns [rows * cols, width], line by line: the sums of a row of `lines` and one of `columns` */
function crossed(
  lines: Float32Array,
  columns: Float32Array,
  { rows, cols }: Pick<ImageTile, 'rows' | 'cols'>,
  width: number,
): Float32Array {
  const sums = new Float32Array(rows * cols * width);
  for (let row = 0, to = 0; row < rows; row++) {
    for (let at = 0; at < cols * width; at++) sums[to++] = columns[at]! + lines[row * width + (at % width)]!;
  }
  return sums;
}

/** Turns heads of x [patches, heads * headDim] in place. */
type Rotation = (step: Step, x: Tensor) => void;

function loadRotation(context: VisionContext): Rotation {
  const { headDim, layerRopes } = context.config.layers;
  const rotaryDim = headDim / 2;
  const pairs = rotaryDim / 2;
  const table = context.ops.makeVector(ropeTable(layerRopes[0]!, rotaryDim, longestSide(context)));
  const byColumn = { lines: 0, columns: pairs, alternate: false };
  const byLine = { lines: pairs, columns: 0, alternate: false };
  return ({ ops, inputs }, x) => {
    ops.rope(x, inputs, table, { headDim, rotaryDim, sections: byColumn });
    ops.rope(x, inputs, table, { headDim, first: rotaryDim, rotaryDim, sections: byLine });
  };
}

function loadLayer(context: VisionContext, rotation: Rotation, prefix: string): Layer {
  const { config, weights } = context;
  const norm = (name: string): Norm => rmsNorm({ config: config.layers, weights }, `${prefix}.${name}`);
  return inOrder(
    betweenNorms(
      norm('input_layernorm'),
      loadAttention(context, rotation, `${prefix}.self_attn`),
      norm('post_attention_layernorm'),
    ),
    betweenNorms(
      norm('pre_feedforward_layernorm'),
      loadMlp(context, `${prefix}.mlp`),
      norm('post_feedforward_layernorm'),
    ),
  );
}

/** x += after(block(before(x))) */
function betweenNorms(before: Norm, block: Product, after: Norm): Layer {
  return (x, step) => {
    const y = block.apply(step, before(step, x, block.inputDType));
    step.ops.addScaled(x, after(step, y, 'f32'), 1);
  };
}

function loadAttention(context: VisionContext, rotation: Rotation, prefix: string): Product {
  const { config, weights } = context;
  const { numHeads, numKvHeads, headDim, hiddenSize, normEps: eps, attentionScales } = config.layers;
  const { column, row } = productsOf(context);
  const load = (name: string, heads: number) => column(`${prefix}.${name}`, heads * headDim, hiddenSize);
  const queries = load('q_proj', numHeads);
  const [keys, values] = ['k_proj', 'v_proj'].map((name) => load(name, numKvHeads));
  const output = row(`${prefix}.o_proj`, hiddenSize, numHeads * headDim);
  const [queryNorm, keyNorm] = ['q_norm', 'k_norm'].map((name) =>
    weights.vector(`${prefix}.${name}.weight`, headDim),
  );
  const valueNorm = weights.constant(headDim, 1);
  return {
    inputDType: queries.inputDType,
    apply: (step, h) => {
      const { ops, inputs } = step;
      const headsOf = (one: Product, norm: Vector): Tensor => {
        const x = one.apply(step, h);
        ops.qkNorm(x, norm, eps);
        return x;
      };
      const q = headsOf(queries, queryNorm!);
      const k = headsOf(keys!, keyNorm!);
      for (const x of [q, k]) rotation(step, x);
      ops.storeKv(k, headsOf(values!, valueNorm), inputs, 0);
      const sight = { layer: 0, scale: attentionScales[0]!, window: null, isBidirectional: true };
      return output.apply(step, ops.attention(q, inputs, sight));
    },
  };
}

/** down(activation(gate(h)) * up(h)) */
function loadMlp(context: VisionContext, prefix: string): Product {
  const { hiddenSize, intermediateSize, activation } = context.config.layers;
  const { column, row } = productsOf(context);
  const [gate, up] = ['gate_proj', 'up_proj'].map((name) =>
    column(`${prefix}.${name}`, intermediateSize, hiddenSize),
  );
  const down = row(`${prefix}.down_proj`, hiddenSize, intermediateSize);
  return {
    inputDType: gate!.inputDType,
    apply: (step, h) => {
      const { ops } = step;
      const opened = ops.activate(gate!.apply(step, h), activation, 'f32');
      return down.apply(step, ops.gate(up!.apply(step, h), opened, 'identity', down.inputDType));
    },
  };
}

/** Of `n` numbers made of `k`; with bounds, where the release has them. */
function productsOf({ config, weights }: VisionContext) {
  const bounded = (one: Product, name: string) =>
    config.hasBounds ? boundedProduct(one, weights, name) : one;
  return {
    column: (name: string, n: number, k: number): Product =>
      bounded(weights.column({ name: `${name}.linear`, n }, k), name),
    row: (name: string, n: number, k: number): Product =>
      bounded(weights.row({ name: `${name}.linear`, n }, k), name),
  };
}

/** Of the means of neighbours. */
function loadProjector({ config, text, weights }: VisionContext, tower: string, name: string): Projector {
  const { hiddenSize: width, normEps } = config.layers;
  const [bias, scale] = config.isStandardized
    ? ['bias', 'scale'].map((part) => weights.numbers(`${tower}.std_${part}`, [width]))
    : [];
  const ones = weights.constant(width, 1);
  const project = product(weights.classifier(name, text.hiddenSize, width, false));
  return (ops, means) => {
    ops.scale(means, Math.sqrt(width));
    if (bias) ops.addScaled(means, inEachRow(ops, bias, means), -1);
    const standard = scale ? ops.gate(means, inEachRow(ops, scale, means), 'identity', 'f32') : means;
    return project(ops, ops.rmsNorm(standard, ones, normEps, 'f32'));
  };
}

/** numbers [width] -> f32 [rows of x, width] */
function inEachRow(ops: Ops, numbers: Float32Array, { rows }: Tensor): Tensor {
  const all = new Float32Array(rows * numbers.length);
  for (let row = 0; row < rows; row++) all.set(numbers, row * numbers.length);
  return ops.tensor(all, rows, numbers.length, 'f32');
}
