// Learned positions of a square, stretched over a tile of another form.

import type { ImageTile } from '../../images/image-processor.ts';

/** What a position of the tile is made of, on one of its sides. */
interface Taps {
  readonly first: number;
  readonly second: number;
  /** Of the second one; that of the first is what it lacks of 1. */
  readonly weight: number;
}

/**
 * Corners stay corners; between the positions of the square, which are `table` [side², width], it is linear in both directions.
 * @returns [rows * cols, width], line by line
 */
export function stretchedPositions(
  table: Float32Array,
  side: number,
  { rows, cols }: Pick<ImageTile, 'rows' | 'cols'>,
): Float32Array {
  const width = table.length / side ** 2;
  const [down, across] = [rows, cols].map((length) =>
    Array.from({ length }, (_, index) => tapsOf(index, length, side)),
  );
  const stretched = new Float32Array(rows * cols * width);
  const add = (to: number, position: number, weight: number): void => {
    for (let i = 0; i < width; i++) stretched[to + i]! += table[position * width + i]! * weight;
  };
  for (const [row, { first: top, second: bottom, weight: lower }] of down!.entries()) {
    for (const [col, { first: left, second: right, weight: further }] of across!.entries()) {
      const to = (row * cols + col) * width;
      add(to, top * side + left, (1 - lower) * (1 - further));
      add(to, top * side + right, (1 - lower) * further);
      add(to, bottom * side + left, lower * (1 - further));
      add(to, bottom * side + right, lower * further);
    }
  }
  return stretched;
}

/** In f32, as in training: that decides between which two positions one falls that is nearly one of them. */
function tapsOf(index: number, length: number, side: number): Taps {
  const place = Math.fround(Math.fround(index * (side - 1)) / Math.max(length - 1, 1));
  const first = Math.floor(place);
  return { first, second: Math.min(first + 1, side - 1), weight: place - first };
}
