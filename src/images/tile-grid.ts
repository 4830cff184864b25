// Into how many square tiles an image is cut, by its form: as LFM2-VL and InternVL choose it.

import type { Size } from './fit-area.ts';

/** How many tiles are below each other and beside each other. */
export interface Grid {
  readonly rows: number;
  readonly cols: number;
}

export interface GridOptions {
  /** Of each tile, on each side, in pixels. */
  readonly size: number;
  readonly least: number;
  readonly most: number;
}

/** Far more than any model has. */
export const MOST_TILES = 100;

/** Of the form that is nearest to that of the image; of two as near, the larger one where the image has more than half of its area. */
export function nearestGrid({ width, height }: Size, { size, least, most }: GridOptions): Grid {
  const sides = Array.from({ length: most }, (_, side) => side + 1);
  const grids = sides
    .flatMap((cols) => sides.map((rows) => ({ rows, cols })))
    .filter(({ rows, cols }) => rows * cols >= least && rows * cols <= most)
    .sort((a, b) => a.rows * a.cols - b.rows * b.cols);
  const distance = ({ rows, cols }: Grid): number => Math.abs(width / height - cols / rows);
  return grids.reduce((nearest, grid) => {
    if (distance(grid) !== distance(nearest)) return distance(grid) < distance(nearest) ? grid : nearest;
    return width * height > 0.5 * size ** 2 * grid.rows * grid.cols ? grid : nearest;
  });
}
