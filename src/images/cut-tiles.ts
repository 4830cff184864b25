// Square tiles of an image, row by row.

import type { ImageTile } from './image-processor.ts';
import type { Pixels } from './pixels.ts';
import { cutTile } from './prepare-image.ts';

/** @param tileSize pixels of a tile on each side, of which those of the image are multiples */
export function cutTiles(image: Pixels, tileSize: number, patchSize: number): ImageTile[][] {
  const side = Math.floor(tileSize / patchSize);
  return Array.from({ length: image.height / tileSize }, (_, row) =>
    Array.from({ length: image.width / tileSize }, (_, col) =>
      cutTile(image, { rows: side, cols: side, top: row * tileSize, left: col * tileSize }, patchSize),
    ),
  );
}
