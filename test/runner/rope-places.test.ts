// Where tokens of images and of the text between them are for rotation, whichever part of a prompt a step computes.

import { describe, expect, it } from 'vitest';
import type { PromptImage } from '../../src/images/image-processor.ts';
import { ropePlacesOf } from '../../src/runner/rope-places.ts';
import { Request } from '../../src/scheduler/request.ts';
import { newRequest } from '../helpers/new-request.ts';

function imageAt(first: number, rows: number, cols: number, isInPlane = true): PromptImage {
  const numTokens = rows * cols;
  const image = { hash: '', tiles: [], colours: { factors: [], offsets: [] }, numTokens };
  const positions = Array.from({ length: numTokens }, (_, index) => first + index);
  return { image: { ...image, ...(isInPlane && { grid: { rows, cols } }) }, positions };
}

/** As the scheduler gives a step the tokens from `first` on. */
function placesOf(images: readonly PromptImage[], firstPosition: number, numTokens: number) {
  const request = new Request(newRequest({ images, promptTokenIds: new Array<number>(40).fill(1) }), 0);
  return ropePlacesOf({
    firstPosition,
    numTokens,
    images: request.images.among(firstPosition, firstPosition + numTokens),
    positionLag: request.images.positionLagAt(firstPosition),
  });
}

describe('tokens turn', () => {
  it('by where they stand where no image lies in a plane', () => {
    expect(placesOf([], 3, 5)).toBeUndefined();
    expect(placesOf([imageAt(2, 2, 3, false)], 0, 20)).toBeUndefined();
    expect(placesOf([imageAt(10, 2, 3)], 0, 10)).toBeUndefined();
  });

  it('of an image at one position, by line and column from there on, and text goes on behind its longer side', () => {
    expect(placesOf([imageAt(2, 2, 3)], 0, 10)).toEqual({
      positions: [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
      lines: [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
      columns: [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    });
  });

  it('the same in whatever steps they are computed', () => {
    const images = [imageAt(2, 2, 3), imageAt(8, 4, 2), imageAt(20, 1, 1), imageAt(25, 3, 3)];
    const whole = placesOf(images, 0, 40)!;
    expect(whole.positions.at(-1)).toBe(39 - (6 - 3) - (8 - 4) - (9 - 3));
    for (let first = 0; first < 40; first++) {
      for (let end = first + 1; end <= 40; end++) {
        const part = placesOf(images, first, end - first);
        const counted = Array.from({ length: end - first }, (_, index) => first + index);
        const { positions, lines, columns } = part ?? {
          positions: counted,
          lines: counted,
          columns: counted,
        };
        expect(positions).toEqual(whole.positions.slice(first, end));
        expect(lines).toEqual(whole.lines.slice(first, end));
        expect(columns).toEqual(whole.columns.slice(first, end));
      }
    }
  });
});
