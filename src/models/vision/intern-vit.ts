// The encoder of InternVL (Chen et al., 2024): a transformer over the patches of a square tile and a token for all of it, with learned
// positions; what a block adds has a factor for each number.

import { attentionOf, fusedQkv, normOfAllHeads, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { type LoadNorm, layerNorm, type Norm, rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import type { VisionConfig } from '../model-config.ts';
import type { ImageEncoderParts, VisionContext } from './image-encoder.ts';

/** What a checkpoint calls its tensors. */
export interface InternVitNames {
  /** All of them begin with it. */
  readonly root: string;
  readonly patches: string;
  readonly tileToken: string;
  readonly positions: string;
  readonly layers: string;
  readonly attention: string;
  /** Null where queries, keys and values are apart. */
  readonly fusedQkv: string | null;
  readonly output: string;
  readonly norms: readonly [beforeAttention: string, beforeMlp: string];
  readonly factors: readonly [ofAttention: string, ofMlp: string];
}

/** Without a final norm: no release has one. */
export function loadInternVit(
  context: VisionContext,
  names: InternVitNames,
): Pick<ImageEncoderParts, 'patches' | 'begin' | 'layers'> {
  const { config, weights } = context;
  const { patchSize, layers } = config;
  const { hiddenSize } = layers;
  const positions = tilePositions(context, names);
  const layerContext: LayerContext = {
    config: layers,
    weights,
    ropeTables: new Map(),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
  const load = layerOf(names);
  return {
    patches: weights.patches(`${names.root}${names.patches}`, hiddenSize, [3, patchSize, patchSize], false),
    begin: (x, { rows, cols }, { ops }) => {
      expectWholeTile(config, rows, cols);
      ops.scope(() => ops.addScaled(x, ops.tensor(positions, x.rows, x.cols, 'f32'), 1));
      return x;
    },
    layers: Array.from({ length: layers.numLayers }, (_, layer) =>
      load(layerContext, layer, `${names.root}${names.layers}.${layer}`),
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
function tilePositions({ config, weights }: VisionContext, names: InternVitNames): Float32Array {
  const { patchesPerSide, layers } = config;
  const { hiddenSize: n } = layers;
  const token = weights.numbers(`${names.root}${names.tileToken}`, [1, 1, n]);
  const bias = weights.numbers(`${names.root}${names.patches}.bias`, [n]);
  const shape = [1, 1 + patchesPerSide ** 2, n];
  const published = weights.numbers(`${names.root}${names.positions}`, shape);
  return published.map((number, at) => number + (at < n ? token : bias)[at % n]!);
}

function layerOf({ attention, fusedQkv: fused, output, norms, factors }: InternVitNames): LoadLayer {
  return (context, layer, prefix) => {
    const { numHeads, hasHeadNorms } = context.config;
    const within = `${prefix}.${attention}`;
    const headNorm = (name: string) =>
      hasHeadNorms ? normOfAllHeads(context, `${within}.${name}`, numHeads) : undefined;
    return inOrder(
      residual({
        before: normOfLayer(context, `${prefix}.${norms[0]}`),
        block: attentionOf(context, layer, {
          qkv: fused === null ? separateQkv(context, within) : fusedQkv(context, `${within}.${fused}`),
          queryNorm: headNorm('q_norm'),
          keyNorm: headNorm('k_norm'),
          output: outputProjection(context, `${within}.${output}`),
        }),
        after: factorOfEach(context, `${prefix}.${factors[0]}`),
      }),
      residual({
        before: normOfLayer(context, `${prefix}.${norms[1]}`),
        block: mlp(context, layer, `${prefix}.mlp`),
        after: factorOfEach(context, `${prefix}.${factors[1]}`),
      }),
    );
  };
}

const mlp = plainMlp({ up: 'fc1', down: 'fc2' });

/** The largest of them has the kind without a bias. */
const normOfLayer: LoadNorm = (context, name) =>
  (context.weights.hasVector(`${name}.bias`) ? layerNorm : rmsNorm)(context, name);

/** Layer scale (Touvron et al., 2021). */
function factorOfEach({ config, weights }: LayerContext, name: string): Norm {
  const factors = weights.vector(name, config.hiddenSize);
  return ({ ops }, x, dtype) => ops.scaleColumns(x, factors, dtype);
}
