// The encoder of Pixtral (Agrawal et al., 2024): a transformer over the patches of an image in its own form, of which half of the rotation of
// heads tells the row and half the column.

import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { ropeTable } from '../layers/rope.ts';
import type { VisionConfig } from '../model-config.ts';
import type { RopeConfig } from '../rope-config.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';

/** @param root the names of its tensors begin with it. */
export function loadPixtral(
  { config, ops, weights }: VisionContext,
  root: string,
): Pick<ImageEncoderParts, 'patches' | 'positionsOf' | 'begin' | 'layers'> {
  const { patchSize, patchesPerSide, layers } = config;
  const { hiddenSize, numLayers, layerRopes } = layers;
  const rope = layerRopes[0]!;
  const table = ops.makeVector(planeTable(config, rope));
  const context: LayerContext = {
    config: layers,
    weights,
    ropeTables: new Map([[rope, { queries: table, keys: table, unturned: null }]]),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  const patches = weights.patches(`${root}patch_conv`, hiddenSize, patchSize, false);
  const firstNorm = rmsNorm(context, `${root}ln_pre`);
  return {
    patches,
    positionsOf: ({ rows, cols }) =>
      Int32Array.from(
        { length: rows * cols },
        (_, patch) => Math.floor(patch / cols) * patchesPerSide + (patch % cols),
      ),
    begin: (x, _, step) => firstNorm(step, x, 'f32'),
    layers: Array.from({ length: numLayers }, (_, layer) =>
      pixtralLayer(context, layer, `${root}transformer.layers.${layer}`),
    ),
  };
}

const pixtralLayer: LoadLayer = (context, layer, prefix) =>
  inOrder(
    residual({
      before: rmsNorm(context, `${prefix}.attention_norm`),
      block: attentionOf(context, layer, {
        qkv: separateQkv(context, `${prefix}.attention`),
        output: outputProjection(context, `${prefix}.attention.o_proj`),
      }),
    }),
    residual({
      before: rmsNorm(context, `${prefix}.ffn_norm`),
      block: gatedMlp(context, layer, `${prefix}.feed_forward`),
    }),
  );

/**
 * A table of `ops.rope`: that of the patch in a row and a column of the largest image is row * patchesPerSide + column. Every other frequency
 * turns by the row, the rest by the column.
 */
function planeTable(
  { patchesPerSide: side, layers: { headDim } }: VisionConfig,
  rope: RopeConfig,
): Float32Array {
  const line = ropeTable(rope, headDim, side);
  const [half, quarter] = [headDim / 2, headDim / 4];
  const table = new Float32Array(side ** 2 * headDim);
  for (let place = 0; place < side ** 2; place++) {
    const [row, col] = [Math.floor(place / side), place % side];
    for (let i = 0; i < half; i++) {
      const from = i < quarter ? row * headDim + 2 * i : col * headDim + 2 * (i - quarter) + 1;
      table[place * headDim + i] = line[from]!;
      table[place * headDim + half + i] = line[half + from]!;
    }
  }
  return table;
}
