// What all processors end with: tiles are cut into patches, and what is the same gets the same hash.

import { createHash } from 'node:crypto';
import type { ImageTile, PreparedImage } from './image-processor.ts';
import { CHANNELS, type Pixels } from './pixels.ts';

export type Colours = PreparedImage['colours'];

/** A rectangle of an image, in patches. */
interface Cut {
  readonly rows: number;
  readonly cols: number;
  /** Of its first line and its first column, in pixels. */
  readonly top: number;
  readonly left: number;
}

/** The whole image, as far as it is whole patches. */
export function wholeTile(image: Pixels, patchSize: number): ImageTile {
  const [rows, cols] = [image.height, image.width].map((length) => Math.floor(length / patchSize));
  const cut = { rows: rows!, cols: cols!, top: 0, left: 0 };
  return cutTile(image, cut, patchSize);
}

export function cutTile(
  { width, data }: Pixels,
  { rows, cols, top, left }: Cut,
  patchSize: number,
): ImageTile {
  const plane = patchSize * patchSize;
  // Shared: the threads through which a tile goes have it once.
  const patches = new Uint8Array(new SharedArrayBuffer(rows * cols * CHANNELS * plane));
  for (let y = 0; y < rows * patchSize; y++) {
    const row = Math.trunc(y / patchSize);
    const line = (y % patchSize) * patchSize;
    let source = ((top + y) * width + left) * CHANNELS;
    for (let col = 0; col < cols; col++) {
      const first = (row * cols + col) * CHANNELS * plane + line;
      for (let to = first; to < first + patchSize; to++) {
        for (let channel = 0; channel < CHANNELS; channel++) patches[to + channel * plane] = data[source++]!;
      }
    }
  }
  return { rows, cols, patches };
}

/** @param grid of its tokens: see `PreparedImage` */
export function prepareImage(
  tiles: readonly ImageTile[],
  colours: Colours,
  numTokens: number,
  grid?: PreparedImage['grid'],
): PreparedImage {
  const hash = createHash('sha256').update(JSON.stringify([colours, numTokens]));
  for (const { rows, cols, patches } of tiles) hash.update(JSON.stringify([rows, cols])).update(patches);
  return { hash: hash.digest('hex'), tiles, colours, numTokens, ...(grid && { grid }) };
}
