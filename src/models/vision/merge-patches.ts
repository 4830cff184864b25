// Rows of neighbouring patches, side by side as one row each.

import type { ImageTile } from '../../images/image-processor.ts';

/** Of each neighbour all numbers together, or of each number those of all neighbours. */
export type PatchOrder = 'by neighbour' | 'by number';

/**
 * @param numbers [patches, hidden], the patches of a tile line by line
 * @param size neighbours on each side, of which rows and columns are multiples
 * @returns [patches / size², hidden * size²], neighbours line by line
 */
export function mergePatches(
  numbers: Float32Array,
  { rows, cols }: Pick<ImageTile, 'rows' | 'cols'>,
  size: number,
  order: PatchOrder,
): Float32Array {
  const hidden = numbers.length / (rows * cols);
  const area = size ** 2;
  const [ofNeighbour, ofNumber] = order === 'by neighbour' ? [hidden, 1] : [1, area];
  const merged = new Float32Array(numbers.length);
  for (let patch = 0; patch < rows * cols; patch++) {
    const [row, col] = [Math.floor(patch / cols), patch % cols];
    const group = Math.floor(row / size) * (cols / size) + Math.floor(col / size);
    const neighbour = (row % size) * size + (col % size);
    const start = group * hidden * area + neighbour * ofNeighbour;
    for (let i = 0; i < hidden; i++) merged[start + i * ofNumber] = numbers[patch * hidden + i]!;
  }
  return merged;
}
