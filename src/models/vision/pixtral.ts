// The encoder of Pixtral (Agrawal et al., 2024): a transformer over the patches of an image in its own form, of which half of the rotation of
// heads tells the row and half the column.

import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { ropeTable } from '../layers/rope.ts';
import type { RopeConfig } from '../rope-config.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';
import { planeSections } from './plane-sections.ts';

/** @param root the names of its tensors begin with it. */
export function loadPixtral(
  { config, ops, weights }: VisionContext,
  root: string,
): Pick<ImageEncoderParts, 'patches' | 'begin' | 'layers'> {
  const { patchSize, patchesPerSide, layers } = config;
  const { hiddenSize, numLayers, layerRopes } = layers;
  const rope = layerRopes[0]!;
  const table = ops.makeVector(planeTable(rope, layers.headDim, patchesPerSide));
  const context: LayerContext = {
    config: { ...layers, ropeSections: planeSections(layers.headDim) },
    weights,
    ropeTables: new Map([[rope, { queries: table, keys: table, unturned: null }]]),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  const patches = weights.patches(`${root}patch_conv`, hiddenSize, [3, patchSize, patchSize], false);
  const firstNorm = rmsNorm(context, `${root}ln_pre`);
  return {
    patches,
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

/** A table of `ops.rope`: every other frequency turns by the line of a patch, the rest by its column. */
function planeTable(rope: RopeConfig, headDim: number, length: number): Float32Array {
  const line = ropeTable(rope, headDim, length);
  const half = headDim / 2;
  return line.map((_, at) => {
    const pair = at % half;
    const own = pair < half / 2 ? 2 * pair : 2 * pair + 1 - half;
    return line[at - pair + own]!;
  });
}
