// Rows of neighbouring patches, side by side as one row each.

import type { ImageTile } from '../../images/image-processor.ts';

/** Of each neighbour all numbers together, or of each number those of all neighbours. */
export type NeighbourOrder = 'by neighbour' | 'by number';

/**
 * @param numbers [patches, hidden]
 * @param patches [patches] the patch of each row, counted line by line
 * @param size neighbours on each side, of which rows and columns are multiples
 * @returns [patches / size², hidden * size²], line by line, as are the neighbours
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
  const [ofNeighbour, ofNumber] = order === 'by neighbour' ? [hidden, 1] : [1, area];
  const merged = new Float32Array(numbers.length);
  for (const [index, patch] of patches.entries()) {
    const [row, col] = [Math.floor(patch / cols), patch % cols];
    const group = Math.floor(row / size) * (cols / size) + Math.floor(col / size);
    const neighbour = (row % size) * size + (col % size);
    const start = group * hidden * area + neighbour * ofNeighbour;
    for (let i = 0; i < hidden; i++) merged[start + i * ofNumber] = numbers[index * hidden + i]!;
  }
  return merged;
}
