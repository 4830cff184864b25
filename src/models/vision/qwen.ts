// The encoders of Qwen-VL: transformers over the patches of an image in its own form, which turn by line and column. Qwen2.5-VL has windows;
// Qwen3-VL learned positions, too, and rows of earlier layers for later layers of the text part.
// Sources: Wang et al., "Qwen2-VL", 2024; Qwen Team, "Qwen2.5-VL Technical Report" and "Qwen3-VL Technical Report", 2025.

import { attentionOf, fusedQkv, outputProjection, separateQkv } from '../layers/attention.ts';
import type { Layer, LayerContext, LoadBlock } from '../layers/layer.ts';
import { gatedMlp, plainMlp, quickGeluMlp } from '../layers/mlp.ts';
import { type LoadNorm, layerNorm, rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { ropeTable } from '../layers/rope.ts';
import { activated, headOf, product } from '../pooling/pooling-head.ts';
import { ImageEncoder, type ImageEncoderParts, type Projector, type VisionContext } from './image-encoder.ts';
import { planeSections } from './plane-sections.ts';
import { fromCornerToCorner, stretchedPositions } from './stretched-positions.ts';

/** What a generation has of its own. */
interface Generation {
  readonly norm: LoadNorm;
  readonly mlp: LoadBlock;
  readonly hasPatchBias: boolean;
  /** Names of the norm and of the two products that make rows for the text part. */
  readonly merger: readonly [norm: string, first: string, second: string];
}

export const loadQwen2Vision = loader({
  norm: layerNorm,
  mlp: quickGeluMlp({ up: 'fc1', down: 'fc2' }),
  hasPatchBias: false,
  merger: ['ln_q', 'mlp.0', 'mlp.2'],
});

export const loadQwen25Vision = loader({
  norm: rmsNorm,
  mlp: gatedMlp,
  hasPatchBias: false,
  merger: ['ln_q', 'mlp.0', 'mlp.2'],
});

export const loadQwen3Vision = loader({
  norm: layerNorm,
  mlp: plainMlp({ up: 'linear_fc1', down: 'linear_fc2' }),
  hasPatchBias: true,
  merger: ['norm', 'linear_fc1', 'linear_fc2'],
});

const ROOTS = ['model.visual.', 'visual.'];

/** What it makes is null where a release has left the encoder out. */
function loader(generation: Generation): (context: VisionContext) => ImageEncoder | null {
  return (context) => {
    const { config, weights } = context;
    const root = ROOTS.find((one) => !weights.lacks(`${one}patch_embed.proj`));
    if (root === undefined) return null;
    const { patchSize, frames, layers } = config;
    const { norm, hasPatchBias, merger } = generation;
    const layerContext = contextOf(context);
    const patch = [3, frames, patchSize, patchSize];
    return new ImageEncoder(context, {
      patches: weights.patches(`${root}patch_embed.proj`, layers.hiddenSize, patch, hasPatchBias),
      begin: loadPositions(context, root),
      layers: Array.from({ length: layers.numLayers }, (_, layer) =>
        loadLayer(layerContext, generation, layer, `${root}blocks.${layer}`),
      ),
      finalNorm: norm(layerContext, `${root}merger.${merger[0]}`),
      order: 'by neighbour',
      project: loadMerger(context, generation, `${root}merger`),
      deepProjects: loadDeepMergers(context, generation, root),
    });
  };
}

function contextOf({ config: { layers, patchesPerSide }, ops, weights }: VisionContext): LayerContext {
  const rope = layers.layerRopes[0]!;
  const half = layers.headDim / 2;
  // The narrowest image is as long as all of its patches two by two.
  const table = ops.makeVector(doubled(ropeTable(rope, half, patchesPerSide ** 2 / 2), half / 2));
  return {
    config: { ...layers, ropeSections: planeSections(layers.headDim) },
    weights,
    ropeTables: new Map([[rope, { queries: table, keys: table, unturned: null }]]),
    growthTable: () => null,
    cacheLayerOf: () => 0,
  };
}

/** A table [positions, 2 * width], cosines and sines of lines, with the same for columns. */
function doubled(table: Float32Array, width: number): Float32Array {
  const twice = new Float32Array(2 * table.length);
  for (let first = 0; first < table.length; first += width) {
    const part = table.subarray(first, first + width);
    twice.set(part, 2 * first);
    twice.set(part, 2 * first + width);
  }
  return twice;
}

function loadLayer(context: LayerContext, { norm, mlp }: Generation, layer: number, prefix: string): Layer {
  return inOrder(
    residual({
      before: norm(context, `${prefix}.norm1`),
      block: attentionOf(context, layer, {
        // Some converters take it apart.
        qkv: context.weights.lacks(`${prefix}.attn.qkv`)
          ? separateQkv(context, `${prefix}.attn`)
          : fusedQkv(context, `${prefix}.attn.qkv`),
        output: outputProjection(context, `${prefix}.attn.proj`),
      }),
    }),
    residual({ before: norm(context, `${prefix}.norm2`), block: mlp(context, layer, `${prefix}.mlp`) }),
  );
}

/** Adds learned positions, where there are any. */
function loadPositions({ config, weights }: VisionContext, root: string): ImageEncoderParts['begin'] {
  const { positionsPerSide: side, layers } = config;
  if (side === null) return (x) => x;
  const table = weights.numbers(`${root}pos_embed.weight`, [side ** 2, layers.hiddenSize]);
  return (x, tile, { ops }) => {
    const positions = stretchedPositions(table, side, tile, fromCornerToCorner);
    ops.scope(() => ops.addScaled(x, ops.tensor(positions, x.rows, x.cols, 'f32'), 1));
    return x;
  };
}

/** Of rows that are normalised already. */
function loadMerger(
  { config, text, weights }: VisionContext,
  { merger: [, first, second] }: Generation,
  name: string,
): Projector {
  const width = config.layers.hiddenSize * config.mergeSize ** 2;
  return headOf(
    product(weights.classifier(`${name}.${first}`, width, width, true)),
    activated('gelu'),
    product(weights.classifier(`${name}.${second}`, text.hiddenSize, width, true)),
  );
}

/** Their norms are over all neighbours. */
function loadDeepMergers(
  context: VisionContext,
  generation: Generation,
  root: string,
): ReadonlyMap<number, Projector> {
  const { config, weights } = context;
  const { hiddenSize, normEps } = config.layers;
  const width = hiddenSize * config.mergeSize ** 2;
  return new Map(
    config.deepLayers.map((layer, index) => {
      const name = `${root}deepstack_merger_list.${index}`;
      const [weight, bias] = ['weight', 'bias'].map((part) => weights.vector(`${name}.norm.${part}`, width));
      const merge = loadMerger(context, generation, name);
      return [layer, (ops, x) => merge(ops, ops.layerNorm(x, weight!, bias!, normEps, 'f32'))];
    }),
  );
}
