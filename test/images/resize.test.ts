// Laws of resizing; that its bytes are those of the original is in image-goldens.test.ts.

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Pixels } from '../../src/images/pixels.ts';
import { resize } from '../../src/images/resize.ts';

const filter = fc.constantFrom('bilinear', 'bicubic', 'lanczos');
const side = fc.integer({ min: 1, max: 40 });

function plain(width: number, height: number, colour: readonly number[]): Pixels {
  return { width, height, data: Uint8Array.from({ length: width * height * 3 }, (_, i) => colour[i % 3]!) };
}

/** With the brightness of each pixel by its place. */
function grey(width: number, height: number, level: (x: number, y: number) => number): Pixels {
  const place = (i: number): number => Math.trunc(i / 3);
  const data = Uint8Array.from({ length: width * height * 3 }, (_, i) =>
    level(place(i) % width, Math.trunc(place(i) / width)),
  );
  return { width, height, data };
}

describe('resize', () => {
  it('leaves one colour as it is, whatever the sizes', () => {
    fc.assert(
      fc.property(side, side, side, side, filter, (width, height, newWidth, newHeight, by) => {
        const resized = resize(plain(width, height, [0, 100, 255]), newWidth, newHeight, by);
        expect(resized).toEqual(plain(newWidth, newHeight, [0, 100, 255]));
      }),
    );
  });

  it('gives the image itself where it has the size already', () => {
    const image = plain(3, 2, [1, 2, 3]);
    expect(resize(image, 3, 2, 'lanczos')).toBe(image);
  });

  it('treats lines as it treats columns', () => {
    fc.assert(
      fc.property(side, side, filter, (length, newLength, by) => {
        const level = (i: number): number => (i * 37) % 256;
        const wide = resize(
          grey(length, 1, (x) => level(x)),
          newLength,
          1,
          by,
        );
        const tall = resize(
          grey(1, length, (_, y) => level(y)),
          1,
          newLength,
          by,
        );
        expect(wide.data).toEqual(tall.data);
      }),
    );
  });

  it('keeps a byte a byte where a filter overshoots', () => {
    const edge = grey(8, 1, (x) => (x < 4 ? 0 : 255));
    const { data } = resize(edge, 32, 1, 'lanczos');
    expect(Math.min(...data)).toBe(0);
    expect(Math.max(...data)).toBe(255);
    expect(data[0]).toBeLessThan(10);
    expect(data.at(-1)).toBeGreaterThan(245);
  });

  it('blurs what it makes smaller', () => {
    const stripes = grey(64, 1, (x) => (x % 2) * 255);
    for (const level of resize(stripes, 8, 1, 'bilinear').data)
      expect(Math.abs(level - 127)).toBeLessThan(10);
  });

  it('makes a thin image wider without keeping all of its lines', () => {
    const { width, height, data } = resize(
      grey(1, 60_000, (_, y) => y / 240),
      500,
      20,
      'bicubic',
    );
    expect([width, height, data.length]).toEqual([500, 20, 500 * 20 * 3]);
    expect(data[0]).toBeLessThan(data.at(-1)!);
  });
});
