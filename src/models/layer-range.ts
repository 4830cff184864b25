// Which layers of a model are computed in one place: all of them, or those of one of several stages, of which each takes over the
// hidden states of the one before it.

import type { ModelConfig } from './model-config.ts';

/** Layers `first` to `end - 1`. With the first one go the embeddings, with the last one what is after the layers. */
export interface LayerRange {
  readonly first: number;
  readonly end: number;
}

export function allLayers({ numLayers }: Pick<ModelConfig, 'numLayers'>): LayerRange {
  return { first: 0, end: numLayers };
}

/** The layers of each of `numStages` stages, at least one each, so that all have about as much to compute. */
export function divideLayers(config: ModelConfig, numStages: number): LayerRange[] {
  const { numLayers } = config;
  const share = (numLayers + headCost(config)) / numStages;
  // Stages before it, and stages after it, have at least a layer each.
  const cutAt = (stage: number): number =>
    stage === numStages
      ? numLayers
      : Math.min(numLayers - (numStages - stage), Math.max(stage, Math.round(stage * share)));
  return Array.from({ length: numStages }, (_, stage) => ({ first: cutAt(stage), end: cutAt(stage + 1) }));
}

/**
 * How many layers the output head counts for: half of what its weights are, since it multiplies one row of a sequence and a layer
 * each of its tokens. What makes numbers of states is small.
 */
function headCost(config: ModelConfig): number {
  if (config.pooling !== null) return 0;
  const { vocabSize, hiddenSize, numHeads, numKvHeads, headDim, experts } = config;
  const columns =
    experts === null ? config.intermediateSize : experts.routing.topK * experts.intermediateSize;
  const layer = hiddenSize * (2 * (numHeads + numKvHeads) * headDim + 3 * columns);
  return (vocabSize * hiddenSize) / layer / 2;
}
