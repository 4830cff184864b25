// The encoder of SigLIP (Zhai et al., 2023): a transformer over patches with learned positions, norms before its blocks, and no token but those
// of patches.

import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';
import { asPixels, stretchedPositions } from './stretched-positions.ts';

/** What `vision_config` leaves out. */
export const SIGLIP_TRAITS = {
  normEps: 1e-6,
  activation: 'gelu_pytorch_tanh',
  qkvBias: true,
  attentionOutputBias: true,
  mlpBias: true,
  ropeOf: () => null,
} as const;

type SiglipParts = Pick<ImageEncoderParts, 'patches' | 'begin' | 'layers' | 'finalNorm'>;

/** @param root the names of its tensors begin with it. */
export function loadSiglip(context: VisionContext, root: string): SiglipParts {
  const { config, weights } = context;
  const { patchSize, patchesPerSide, layers } = config;
  const { hiddenSize } = layers;
  const numPatches = patchesPerSide ** 2;
  const patch = [3, patchSize, patchSize];
  const patches = weights.patches(`${root}embeddings.patch_embedding`, hiddenSize, patch, true);
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
    ...loadLayers(context, root),
  };
}

/** The second generation (Tschannen et al., 2025), which sees images in their own form: positions are stretched over them. */
export function loadSiglip2(context: VisionContext, root: string): SiglipParts {
  const { config, weights } = context;
  const { patchSize, positionsPerSide, layers } = config;
  const { hiddenSize } = layers;
  const side = positionsPerSide!;
  const table = weights.numbers(`${root}embeddings.position_embedding.weight`, [side ** 2, hiddenSize]);
  return {
    patches: weights.pixelPatches(`${root}embeddings.patch_embedding`, hiddenSize, patchSize, true),
    begin: (x, tile, { ops }) => {
      const positions = stretchedPositions(table, side, tile, asPixels);
      ops.scope(() => ops.addScaled(x, ops.tensor(positions, x.rows, x.cols, 'f32'), 1));
      return x;
    },
    ...loadLayers(context, root),
  };
}

function loadLayers({ config: { layers }, weights }: VisionContext, root: string) {
  const context: LayerContext = {
    config: layers,
    weights,
    ropeTables: new Map(),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  return {
    layers: Array.from({ length: layers.numLayers }, (_, layer) =>
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
