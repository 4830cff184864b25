// Sizes in whole tokens, of images that keep their form and whose area is bounded.

import { InvalidRequestError } from '../errors.ts';
import type { Pixels } from './pixels.ts';

export type Size = Pick<Pixels, 'width' | 'height'>;

/** In pixels. */
export interface Area {
  readonly least: number;
  readonly most: number;
}

/** Of the longer side to the other one. */
const MOST_RATIO = 200;

/**
 * The nearest multiples of `step`. Where their area is too large both sides are made smaller alike and rounded down, where it is too
 * small made larger and rounded up.
 * @param leastSteps of a side that is rounded to the nearest
 * @throws InvalidRequestError where one side is more than `MOST_RATIO` times as long as the other.
 */
export function fitArea({ width, height }: Size, step: number, { least, most }: Area, leastSteps = 0): Size {
  if (Math.max(width, height) > MOST_RATIO * Math.min(width, height)) {
    throw new InvalidRequestError(
      `the longer side of an image may be ${MOST_RATIO} times as long as the other one at most, got ${width} x ${height} pixels: send ` +
        'a part of it',
      { param: 'messages' },
    );
  }
  const bySteps = (count: (length: number) => number): Size => ({
    width: count(width) * step,
    height: count(height) * step,
  });
  const nearest = bySteps((length) => Math.max(roundToEven(length / step), leastSteps));
  const area = nearest.width * nearest.height;
  if (area > most) {
    const shrink = Math.sqrt((height * width) / most);
    return bySteps((length) => Math.max(Math.floor(length / shrink / step), 1));
  }
  if (area >= least) return nearest;
  const grow = Math.sqrt(least / (height * width));
  return bySteps((length) => Math.ceil((length * grow) / step));
}

/** What comes of `fitArea` at most: the narrowest image is as much larger than its area as its longer side is long. */
export function largestArea({ most }: Area, step: number): number {
  const longest = Math.sqrt(most * MOST_RATIO);
  return most + step * (longest + longest / MOST_RATIO + step);
}

/** Halves go to the even number, as in Python. */
export function roundToEven(value: number): number {
  const up = Math.round(value);
  return up - value === 0.5 && up % 2 === 1 ? up - 1 : up;
}
