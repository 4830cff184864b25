// Where the keys and values of a layer are in KV memory: which group's block tables lead to them, and which row of a block.

import { ShapeError } from '../errors.ts';
import { kvHeadBytes } from './dtype.ts';
import type { KvCacheShape, KvHeads, Tensor } from './ops.ts';

/** Of the shape of a cache, what decides where its layers are. */
interface LayerShape {
  readonly layers: number;
  readonly layerGroups?: KvCacheShape['layerGroups'] | undefined;
  readonly layerHeads?: KvCacheShape['layerHeads'];
}

export interface LayerPlace {
  readonly group: number;
  readonly row: number;
  /** Which of the layers that the row holds it is, and how many like it a row holds. */
  readonly part: number;
  readonly parts: number;
}

/** [layers] Layers of a group have its rows in their order; those that share a row have the same heads. */
export function layerPlaces({ layers, layerGroups, layerHeads }: LayerShape): LayerPlace[] {
  const partsOf = layerHeads ? partsInRow(layerHeads) : [];
  const lastOf: (LayerPlace & { readonly layer: number })[] = [];
  return Array.from({ length: layers }, (_, layer) => {
    const group = layerGroups?.[layer] ?? 0;
    const parts = partsOf[layer] ?? 1;
    const { row, part, layer: before } = lastOf[group] ?? { row: -1, part: 0, layer };
    const hasRoom = part + 1 < parts && row >= 0 && haveEqualHeads(layerHeads, layer, before);
    const place = { group, parts, ...(hasRoom ? { row, part: part + 1 } : { row: row + 1, part: 0 }) };
    lastOf[group] = { ...place, layer };
    return place;
  });
}

function haveEqualHeads(layerHeads: LayerShape['layerHeads'], a: number, b: number): boolean {
  const [one, other] = [layerHeads?.[a], layerHeads?.[b]];
  return one?.kvHeads === other?.kvHeads && one?.headDim === other?.headDim;
}

/** [heads] So many layers with these heads does a row hold, which has room for one of those with the most numbers. */
export function partsInRow(heads: readonly KvHeads[]): number[] {
  const widths = heads.map(({ kvHeads, headDim }) => kvHeads * headDim);
  const widest = Math.max(...widths);
  return widths.map((width) => Math.floor(widest / width));
}

/** Rows of a block: as many as the largest group needs. */
export function numKvRows(shape: LayerShape): number {
  return 1 + Math.max(...layerPlaces(shape).map(({ row }) => row));
}

/** [rows of all groups, in the order in which they are full] The group of each. */
export function groupsOfRows(shape: LayerShape): number[] {
  const places = layerPlaces(shape);
  const isLastOfRow = ({ group, row }: LayerPlace, layer: number): boolean =>
    layer === places.findLastIndex((place) => place.group === group && place.row === row);
  return places.filter(isLastOfRow).map(({ group }) => group);
}

export function numKvGroups({ layerGroups = [0] }: KvCacheShape): number {
  return 1 + Math.max(...layerGroups);
}

export function headsOf({ layerHeads, kvHeads, headDim }: KvCacheShape, layer: number): KvHeads {
  return layerHeads?.[layer] ?? { kvHeads, headDim };
}

/** What a cache keeps of each head of a token: its key, and its value where that is another. */
export function vectorsPerToken({ keysAreValues = false }: KvCacheShape): 1 | 2 {
  return keysAreValues ? 1 : 2;
}

/** Bytes that a row has for a token, without what a backend adds to align it. */
export function kvRowBytes(shape: KvCacheShape): number {
  const bytes = layerPlaces(shape).map(({ parts }, layer) => {
    const { kvHeads, headDim } = headsOf(shape, layer);
    return parts * kvHeads * kvHeadBytes(shape.dtype, headDim);
  });
  return vectorsPerToken(shape) * Math.max(...bytes);
}

/**
 * What is stored as the values of keys.
 * @throws ShapeError where the cache keeps values and there are none, or the other way round.
 */
export function valuesFor({ keysAreValues = false }: KvCacheShape, k: Tensor, v: Tensor | null): Tensor {
  if (keysAreValues && v === null) return k;
  if (!keysAreValues && v !== null) return v;
  throw new ShapeError(
    'storeKv',
    `v ${keysAreValues ? 'null, the keys being the values' : 'beside k'}`,
    v === null ? 'null' : 'a tensor',
  );
}
