// The pixels of an image, as all parts of this folder hand them on.

/** Red, green and blue of a pixel. */
export const CHANNELS = 3;

/** Line by line, of each pixel its red, green and blue: [height, width, 3]. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}
