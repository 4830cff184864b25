// Layers that keep a state of each sequence in the place of keys and values: which of a model's they are, and how much they keep.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { deltaStateWidth, type StateShape } from '../ops/ops.ts';
import { checkModelJson } from '../util/model-file.ts';
import { preview } from '../util/preview.ts';
import type { LayerRange } from './layer-range.ts';
import { type ConfigFile, MAX_LAYERS, type ModelConfig } from './model-config.ts';
import type { RankShare } from './rank-share.ts';

export interface RecurrentConfig {
  /** [numLayers] whether a layer keeps a state. */
  readonly layers: readonly boolean[];
  /** Tokens that the convolution of such a layer sees, the newest among them. */
  readonly taps: number;
  /** Whether the convolution, and the products around it, have biases. */
  readonly convBias: boolean;
  /** The delta rule behind it; null where the convolution, as wide as the model, is all. */
  readonly delta: DeltaConfig | null;
}

/** Heads of a delta rule: those of queries and keys, and of values, of which each has a state [keyDim, valueDim]. */
export interface DeltaConfig {
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly heads: number;
  readonly valueDim: number;
}

const layerFields = z.looseObject({
  num_hidden_layers: z.int().positive().max(MAX_LAYERS),
  layer_types: z.array(z.string()).nullish(),
});

/**
 * Which layers keep states, and the rest of config.json, which is as that of a model without.
 * @param type what `layer_types` calls them, beside full_attention
 * @param keepsState where there are no `layer_types`
 * @throws ModelLoadError naming the file, the field and what was expected.
 */
export function readLayerTypes(
  file: ConfigFile,
  type: string,
  keepsState: (layer: number) => boolean,
): { readonly layers: readonly boolean[]; readonly rest: ConfigFile } {
  const { layer_types: types, ...rest } = checkModelJson(file.path, file.json, layerFields);
  const count = rest.num_hidden_layers;
  if (types && types.length !== count)
    throw new ModelLoadError(`${file.path}: layer_types must name ${count} layers, got ${types.length}`);
  const unknown = types?.find((one) => one !== type && one !== 'full_attention');
  if (unknown !== undefined) {
    throw new ModelLoadError(
      `${file.path}: layer_types must be ${type} or full_attention, got ${preview(unknown)}`,
    );
  }
  const layers = Array.from({ length: count }, (_, layer) =>
    types ? types[layer] === type : keepsState(layer),
  );
  if (layers.every((one) => one))
    throw new ModelLoadError(`${file.path}: layer_types must name a layer of full_attention, got none`);
  return { layers, rest: { ...file, json: rest } };
}

type Layered = Pick<ModelConfig, 'numLayers' | 'encoder' | 'recurrent'>;

/** Where, among the layers of its kind, those that a range has begin and end: with keys and values, or with states. */
export function ofKind(
  { recurrent }: Pick<Layered, 'recurrent'>,
  { first, end }: LayerRange,
  keepsState: boolean,
): LayerRange {
  if (recurrent === null) return keepsState ? { first: 0, end: 0 } : { first, end };
  const countBefore = (layer: number): number =>
    recurrent.layers.slice(0, layer).filter((one) => one === keepsState).length;
  return { first: countBefore(first), end: countBefore(end) };
}

/** Which layer of the cache of a range has the keys and values, or the state, of a layer. */
export function cacheLayerOf(config: Layered, { first }: LayerRange, layer: number): number {
  // Nothing reads what a layer of an encoder stored once the layer is computed: all share the memory of one.
  if (config.encoder !== null) return 0;
  const before = ofKind(config, { first, end: layer }, config.recurrent?.layers[layer] ?? false);
  return before.end - before.first;
}

/** Layers of all that have keys and values in the cache. */
export function numKvLayers(config: Layered): number {
  return config.encoder === null ? ofKind(config, { first: 0, end: config.numLayers }, false).end : 1;
}

/** The states of all layers for so many sequences, as a rank has them; undefined where there are none. */
export function stateShape(
  config: Pick<ModelConfig, 'numLayers' | 'encoder' | 'recurrent' | 'hiddenSize'>,
  slots: number,
  share: RankShare,
): StateShape | undefined {
  const { recurrent, hiddenSize, numLayers } = config;
  if (recurrent === null) return undefined;
  const layers = ofKind(config, { first: 0, end: numLayers }, true).end;
  const delta = recurrent.delta && shareOfDelta(recurrent.delta, share);
  const channels = delta ? deltaChannels(delta) : share.of(hiddenSize).count;
  const width = convolutionWidth(recurrent, channels) + (delta ? deltaStateWidth(delta) : 0);
  return { layers, slots, width };
}

/** Numbers that the convolution of a layer keeps; what follows keeps its own behind them. */
export function convolutionWidth({ taps }: RecurrentConfig, channels: number): number {
  return (taps - 1) * channels;
}

/** Queries, keys and values, one after the other. */
export function deltaChannels({ keyHeads, keyDim, heads, valueDim }: DeltaConfig): number {
  return 2 * keyHeads * keyDim + heads * valueDim;
}

/** The heads of a rank. */
export function shareOfDelta(delta: DeltaConfig, share: RankShare): DeltaConfig {
  return { ...delta, keyHeads: share.of(delta.keyHeads).count, heads: share.of(delta.heads).count };
}
