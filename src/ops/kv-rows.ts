// Where the keys and values of a layer are in KV memory: which group's block tables lead to them, and which row of a block.

import type { KvCacheShape } from './ops.ts';

export interface LayerPlace {
  readonly group: number;
  readonly row: number;
}

/** [layers] Layers of a group have its rows in their order. */
export function layerPlaces({ layers, layerGroups }: KvCacheShape): LayerPlace[] {
  const numRows: number[] = [];
  return Array.from({ length: layers }, (_, layer) => {
    const group = layerGroups?.[layer] ?? 0;
    const row = numRows[group] ?? 0;
    numRows[group] = row + 1;
    return { group, row };
  });
}

/** Rows of a block: as many as the largest group has layers. */
export function numKvRows(shape: KvCacheShape): number {
  return 1 + Math.max(...layerPlaces(shape).map(({ row }) => row));
}

export function numKvGroups({ layerGroups = [0] }: KvCacheShape): number {
  return 1 + Math.max(...layerGroups);
}
