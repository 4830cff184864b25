// The encoder of InternVL (Chen et al., 2024): a transformer over the patches of a square tile and a token for all of it, with learned
// positions; what a block adds has a factor for each number.

import { attentionOf, normOfAllHeads, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { type LoadNorm, layerNorm, type Norm, rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import type { VisionConfig } from '../model-config.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';

/**
 * @param root the names of its tensors begin with it.
 * @returns without a final norm: no release has one.
 */
export function loadInternVit(
  context: VisionContext,
  root: string,
): Pick<ImageEncoderParts, 'patches' | 'begin' | 'layers'> {
  const { config, weights } = context;
  const { patchSize, layers } = config;
  const { hiddenSize } = layers;
  const patches = `${root}embeddings.patch_embeddings.projection`;
  const positions = tilePositions(context, `${root}embeddings`, `${patches}.bias`);
  const layerContext: LayerContext = {
    config: layers,
    weights,
    ropeTables: new Map(),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  return {
    patches: weights.patches(patches, hiddenSize, [3, patchSize, patchSize], false),
    begin: (x, { rows, cols }, { ops }) => {
      expectWholeTile(config, rows, cols);
      ops.scope(() => ops.addScaled(x, ops.tensor(positions, x.rows, x.cols, 'f32'), 1));
      return x;
    },
    layers: Array.from({ length: layers.numLayers }, (_, layer) =>
      internVitLayer(layerContext, layer, `${root}encoder.layer.${layer}`),
    ),
  };
}

function expectWholeTile({ patchesPerSide }: VisionConfig, rows: number, cols: number): void {
  if (rows === patchesPerSide && cols === patchesPerSide) return;
  throw new Error(`a tile has ${patchesPerSide} patches on each side, not ${rows} x ${cols}`);
}

/**
 * [1 + patches, hidden] what is added to the products of patches: the token of the tile, which has none, is all in the first row, and the
 * bias of products in the others.
 */
function tilePositions({ config, weights }: VisionContext, name: string, biasName: string): Float32Array {
  const { patchesPerSide, layers } = config;
  const { hiddenSize: n } = layers;
  const token = weights.numbers(`${name}.cls_token`, [1, 1, n]);
  const bias = weights.numbers(biasName, [n]);
  const published = weights.numbers(`${name}.position_embeddings`, [1, 1 + patchesPerSide ** 2, n]);
  return published.map((number, at) => number + (at < n ? token : bias)[at % n]!);
}

const internVitLayer: LoadLayer = (context, layer, prefix) => {
  const { numHeads, hasHeadNorms } = context.config;
  const headNorm = (name: string) =>
    hasHeadNorms ? normOfAllHeads(context, `${prefix}.attention.${name}`, numHeads) : undefined;
  return inOrder(
    residual({
      before: normOfLayer(context, `${prefix}.layernorm_before`),
      block: attentionOf(context, layer, {
        qkv: separateQkv(context, `${prefix}.attention`),
        queryNorm: headNorm('q_norm'),
        keyNorm: headNorm('k_norm'),
        output: outputProjection(context, `${prefix}.attention.projection_layer`),
      }),
      after: factorOfEach(context, `${prefix}.lambda_1`),
    }),
    residual({
      before: normOfLayer(context, `${prefix}.layernorm_after`),
      block: mlp(context, layer, `${prefix}.mlp`),
      after: factorOfEach(context, `${prefix}.lambda_2`),
    }),
  );
};

/** The largest of them has the kind without a bias. */
const normOfLayer: LoadNorm = (context, name) =>
  (context.weights.hasVector(`${name}.bias`) ? layerNorm : rmsNorm)(context, name);

const mlp = plainMlp({ up: 'fc1', down: 'fc2' });

/** Layer scale (Touvron et al., 2021). */
function factorOfEach({ config, weights }: LayerContext, name: string): Norm {
  const factors = weights.vector(name, config.hiddenSize);
  return ({ ops }, x, dtype) => ops.scaleColumns(x, factors, dtype);
}
