// The encoder of SigLIP (Zhai et al., 2023): a transformer over patches with learned positions, norms before its blocks, and no token but those
// of patches.

import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';

/** What `vision_config` leaves out. */
export const SIGLIP_TRAITS = {
  normEps: 1e-6,
  activation: 'gelu_pytorch_tanh',
  qkvBias: true,
  attentionOutputBias: true,
  mlpBias: true,
  ropeOf: () => null,
} as const;

/** @param root the names of its tensors begin with it. */
export function loadSiglip(
  { config, weights }: VisionContext,
  root: string,
): Pick<ImageEncoderParts, 'patches' | 'begin' | 'layers' | 'finalNorm'> {
  const { patchSize, patchesPerSide, layers } = config;
  const { hiddenSize, numLayers } = layers;
  const context: LayerContext = {
    config: layers,
    weights,
    ropeTables: new Map(),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  const numPatches = patchesPerSide ** 2;
  const patches = weights.patches(
    `${root}embeddings.patch_embedding`,
    hiddenSize,
    [3, patchSize, patchSize],
    true,
  );
  const table = { name: `${root}embeddings.position_embedding`, n: numPatches, shared: null };
  const positions = weights.embedding(table, hiddenSize);
  const ids = Int32Array.from({ length: numPatches }, (_, position) => position);
  return {
    patches,
    begin: (x, { rows, cols }, { ops }) => {
      if (rows * cols !== numPatches)
        throw new Error(`a tile has ${numPatches} patches, not ${rows} x ${cols}`);
      ops.scope(() => ops.addScaled(x, ops.embedding({ ids, sampled: null }, positions), 1));
      return x;
    },
    layers: Array.from({ length: numLayers }, (_, layer) =>
      siglipLayer(context, layer, `${root}encoder.layers.${layer}`),
    ),
    finalNorm: layerNorm(context, `${root}post_layernorm`),
  };
}

const siglipLayer: LoadLayer = (context, layer, prefix) =>
  inOrder(
    residual({
      before: layerNorm(context, `${prefix}.layer_norm1`),
      block: attentionOf(context, layer, {
        qkv: separateQkv(context, `${prefix}.self_attn`),
        output: outputProjection(context, `${prefix}.self_attn.out_proj`),
      }),
    }),
    residual({
      before: layerNorm(context, `${prefix}.layer_norm2`),
      block: mlp(context, layer, `${prefix}.mlp`),
    }),
  );

const mlp = plainMlp({ up: 'fc1', down: 'fc2' });
