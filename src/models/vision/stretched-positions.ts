// Learned positions of a square, stretched over a tile of another form.

import type { ImageTile } from '../../images/image-processor.ts';
import { exactTaps } from '../../images/resize.ts';

/** What a position of the tile is made of, on one of its sides. */
interface Tap {
  /** Of the square. */
  readonly position: number;
  readonly weight: number;
}

/** [length] of a side that is stretched from `side` positions. */
type Stretch = (length: number, side: number) => readonly (readonly Tap[])[];

/**
 * @param table [side², width]
 * @returns [rows * cols, width], line by line
 */
export function stretchedPositions(
  table: Float32Array,
  side: number,
  { rows, cols }: Pick<ImageTile, 'rows' | 'cols'>,
  stretch: Stretch,
): Float32Array {
  const width = table.length / side ** 2;
  const [down, across] = [stretch(rows, side), stretch(cols, side)];
  const stretched = new Float32Array(rows * cols * width);
  const add = (to: number, position: number, weight: number): void => {
    for (let i = 0; i < width; i++) stretched[to + i]! += table[position * width + i]! * weight;
  };
  for (const [row, vertical] of down.entries()) {
    for (const [col, horizontal] of across.entries()) {
      for (const { position: line, weight: ofLine } of vertical) {
        for (const { position: column, weight } of horizontal)
          add((row * cols + col) * width, line * side + column, ofLine * weight);
      }
    }
  }
  return stretched;
}

/** Corners stay corners; between positions it is linear. */
export const fromCornerToCorner: Stretch = (length, side) =>
  Array.from({ length }, (_, index) => {
    // In f32, as in training: that decides between which two one falls that is nearly one of them.
    const place = Math.fround(Math.fround(index * (side - 1)) / Math.max(length - 1, 1));
    const first = Math.floor(place);
    const weight = place - first;
    return [
      { position: first, weight: 1 - weight },
      { position: Math.min(first + 1, side - 1), weight },
    ];
  });

/** As pixels are, bilinear. */
export const asPixels: Stretch = (length, side) => {
  const { starts, counts, most, weights } = exactTaps(side, length);
  return Array.from({ length }, (_, index) =>
    Array.from({ length: counts[index]! }, (_, tap) => ({
      position: starts[index]! + tap,
      weight: weights[index * most + tap]!,
    })),
  );
};
