// Rows of numbers as whole numbers and one scale: the definition of int8.

import { roundHalfToEven } from '../float-formats.ts';

/** The largest quantised number. */
const MOST = 127;
const LEAST_NORMAL = 2 ** -126;

/**
 * Writes x / scale, rounded to the nearest whole number and ties to even, to `into`; may be done in place.
 * @returns the scale, a 127th of the largest |x|: 0 where that is no normal number and all of x counts as zero, NaN where
 *   a number is not finite.
 */
export function quantizeRow(x: Float32Array, into: Float32Array): number {
  let size = 0;
  for (const value of x) {
    if (!Number.isFinite(value)) return Number.NaN;
    size = Math.max(size, Math.abs(value));
  }
  if (size < MOST * LEAST_NORMAL) {
    into.fill(0);
    return 0;
  }
  const inverse = Math.fround(MOST / size);
  for (const [i, value] of x.entries()) into[i] = roundHalfToEven(Math.fround(value * inverse));
  return Math.fround(size / MOST);
}
