// Where the keys and values of a layer are in KV memory: which group's block tables lead to them, and which row of a block.

import { ShapeError } from '../errors.ts';
import type { KvCacheShape, Tensor } from './ops.ts';

/** Of the shape of a cache, what decides where its layers are. */
interface LayerShape {
  readonly layers: number;
  readonly layerGroups?: KvCacheShape['layerGroups'] | undefined;
}

export interface LayerPlace {
  readonly group: number;
  readonly row: number;
}

/** [layers] Layers of a group have its rows in their order. */
export function layerPlaces({ layers, layerGroups }: LayerShape): LayerPlace[] {
  const numRows: number[] = [];
  return Array.from({ length: layers }, (_, layer) => {
    const group = layerGroups?.[layer] ?? 0;
    const row = numRows[group] ?? 0;
    numRows[group] = row + 1;
    return { group, row };
  });
}

/** Rows of a block: as many as the largest group has layers. */
export function numKvRows(shape: LayerShape): number {
  return 1 + Math.max(...layerPlaces(shape).map(({ row }) => row));
}

export function numKvGroups({ layerGroups = [0] }: KvCacheShape): number {
  return 1 + Math.max(...layerGroups);
}

/** What a cache keeps of each head of a token: its key, and its value where that is another. */
export function vectorsPerToken({ keysAreValues = false }: KvCacheShape): 1 | 2 {
  return keysAreValues ? 1 : 2;
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
