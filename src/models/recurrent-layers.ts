// Which layers of a model keep keys and values, a state of each sequence, both or nothing, and where in the cache these are.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { preview } from '../util/preview.ts';
import type { LayerRange } from './layer-range.ts';
import { type ConfigFile, MAX_LAYERS, type ModelConfig } from './model-config.ts';

const layerFields = z.looseObject({
  num_hidden_layers: z.int().positive().max(MAX_LAYERS),
  layer_types: z.array(z.string()).nullish(),
});

/**
 * Which layers keep states, and the rest of config.json, which is as that of a model without.
 * @param types what `layer_types` calls them, and those with attention
 * @param keepsState where there are no `layer_types`
 * @throws ModelLoadError naming the file, the field and what was expected.
 */
export function readLayerTypes(
  file: ConfigFile,
  types: { readonly state: readonly string[]; readonly attention: readonly string[] },
  keepsState: (layer: number) => boolean,
): { readonly layers: readonly boolean[]; readonly rest: ConfigFile } {
  const { layer_types: given, ...rest } = checkModelJson(file.path, file.json, layerFields);
  const count = rest.num_hidden_layers;
  if (given && given.length !== count)
    throw new ModelLoadError(`${file.path}: layer_types must name ${count} layers, got ${given.length}`);
  const known = [...types.state, ...types.attention];
  const unknown = given?.find((type) => !known.includes(type));
  if (unknown !== undefined) {
    throw new ModelLoadError(
      `${file.path}: layer_types must be ${known.join(' or ')}, got ${preview(unknown)}`,
    );
  }
  const layers = Array.from({ length: count }, (_, layer) =>
    given ? types.state.includes(given[layer]!) : keepsState(layer),
  );
  if (layers.every((one) => one))
    throw new ModelLoadError(
      `${file.path}: layer_types must name a layer of ${types.attention[0]}, got none`,
    );
  return { layers, rest: { ...file, json: rest } };
}

type Layered = Pick<ModelConfig, 'numLayers' | 'encoder' | 'recurrent' | 'feedForwards' | 'sharedKeys'>;
/** What decides what a layer keeps of a sequence. */
export type Kept = Pick<Layered, 'recurrent' | 'feedForwards' | 'sharedKeys'>;

/** Whether a layer has keys and values of its own in the cache. */
export function keepsKeys({ recurrent, feedForwards, sharedKeys }: Kept, layer: number): boolean {
  const isScanAlone = recurrent?.layers[layer] && !recurrent.isBesideAttention;
  if (isScanAlone || feedForwards?.[layer]) return false;
  return sharedKeys === null || sharedKeys.sources[layer] === layer;
}

/** Where, among the layers of its kind, those that a range has begin and end: with keys and values, or with states. */
export function ofKind(config: Kept, { first, end }: LayerRange, keepsState: boolean): LayerRange {
  const isOfKind = (layer: number): boolean =>
    keepsState ? (config.recurrent?.layers[layer] ?? false) : keepsKeys(config, layer);
  const countIn = (from: number, to: number): number => {
    let count = 0;
    for (let layer = from; layer < to; layer++) count += isOfKind(layer) ? 1 : 0;
    return count;
  };
  const before = countIn(0, first);
  return { first: before, end: before + countIn(first, end) };
}

/** Which layer of the cache of a range has the keys and values, or the state, of a layer. */
export function cacheLayerOf(config: Layered, { first }: LayerRange, layer: number): number {
  // Nothing reads what a layer of an encoder stored once the layer is computed: all share the memory of one.
  if (config.encoder !== null) return 0;
  const source = config.sharedKeys?.sources[layer] ?? layer;
  const before = ofKind(config, { first, end: source }, config.recurrent?.layers[source] ?? false);
  return before.end - before.first;
}

/** Layers of all that have keys and values in the cache. */
export function numKvLayers(config: Layered): number {
  return config.encoder === null ? ofKind(config, { first: 0, end: config.numLayers }, false).end : 1;
}
