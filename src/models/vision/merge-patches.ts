// Rows of neighbouring patches as one row each: side by side, or their mean.

import type { ImageTile } from '../../images/image-processor.ts';

/** Of each neighbour all numbers together, of each number those of all neighbours, or of each number their mean alone. */
export type NeighbourOrder = 'by neighbour' | 'by number' | 'mean';

/**
 * @param numbers [patches, hidden]
 * @param patches [patches] the patch of each row, counted line by line
 * @param size neighbours on each side, of which rows and columns are multiples
 * @returns [patches / size², hidden * size²], line by line, as are the neighbours; of means [patches / size², hidden]
 */
export function mergePatches(
  numbers: Float32Array,
  patches: Int32Array,
  { cols }: Pick<ImageTile, 'cols'>,
  size: number,
  order: NeighbourOrder,
): Float32Array {
  const hidden = numbers.length / patches.length;
  const area = size ** 2;
  const { ofGroup, ofNeighbour, ofNumber, share } = {
    'by neighbour': { ofGroup: hidden * area, ofNeighbour: hidden, ofNumber: 1, share: 1 },
    'by number': { ofGroup: hidden * area, ofNeighbour: 1, ofNumber: area, share: 1 },
    mean: { ofGroup: hidden, ofNeighbour: 0, ofNumber: 1, share: 1 / area },
  }[order];
  const merged = new Float32Array((patches.length / area) * ofGroup);
  for (const [index, patch] of patches.entries()) {
    const [row, col] = [Math.floor(patch / cols), patch % cols];
    const group = Math.floor(row / size) * (cols / size) + Math.floor(col / size);
    const neighbour = (row % size) * size + (col % size);
    const start = group * ofGroup + neighbour * ofNeighbour;
    for (let i = 0; i < hidden; i++) merged[start + i * ofNumber]! += numbers[index * hidden + i]! * share;
  }
  return merged;
}
