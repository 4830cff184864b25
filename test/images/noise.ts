// Images of any size for tests that look at no pixel, or at each.

import sharp from 'sharp';

/** The byte of a colour at a place of `noise`, counted from the first of its first pixel. */
export function noiseAt(place: number): number {
  return (place * 2_654_435_761) % 251;
}

/** A PNG of noise. */
export function noise(width: number, height: number): Promise<Buffer> {
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, place) => noiseAt(place));
  return sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
}
