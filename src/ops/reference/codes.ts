// How numbers are quantised to codes.

import type { CodeFormat, HalfDType } from '../dtype.ts';
import { packE4m3, roundHalfToEven, roundTo, unpackE4m3 } from '../float-formats.ts';

const inF32 = Math.fround;

/** Replaces each group of each row of values [rows, k] by what its codes encode. */
export function quantizeToCodes(format: CodeFormat, half: HalfDType, values: Float32Array, k: number): void {
  const groupSize = format.groupSize ?? k;
  for (let row = 0; row < values.length; row += k) {
    for (let first = 0; first < k; first += groupSize) {
      const group = values.subarray(row + first, row + Math.min(first + groupSize, k));
      if (format.kind === 'int4') quantizeInt4(group);
      else quantizeFp8(group);
    }
  }
  roundTo(half, values);
}

/** Places of a group's largest number that are tried. */
const PLACES = Array.from({ length: 9 }, (_, step) => -8 + step / 8);
const LEAST = 2 ** -100;

/**
 * The number of the largest size has a place between -8 and -7 on the scale of the codes; of the places that are tried, the
 * one is taken whose codes come closest to the numbers, with the scale that is best for them.
 */
function quantizeInt4(x: Float32Array): void {
  const largest = x.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
  if (Math.abs(largest) < LEAST) return void x.fill(0);
  const inverse = inF32(1 / largest);
  const y = x.map((value) => inF32(value * inverse));
  const codesAt = (place: number) => y.map((value) => Math.min(roundHalfToEven(inF32(value * place)), 7));
  let best = { gain: 0, scale: 0, codes: y };
  for (const place of PLACES) {
    const codes = codesAt(place);
    let [product, square] = [0, 0];
    for (const [i, code] of codes.entries()) {
      product = inF32(product + inF32(y[i]! * code));
      square = inF32(square + code * code);
    }
    const scale = inF32(product / Math.max(square, 1));
    const gain = inF32(product * scale);
    if (gain > best.gain) best = { gain, scale, codes };
  }
  const scale = inF32(best.scale * largest);
  for (const [i, code] of best.codes.entries()) x[i] = code * scale;
}

const FP8_MOST = 448;

function quantizeFp8(x: Float32Array): void {
  const size = x.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (size < LEAST) return void x.fill(0);
  const scale = inF32(size / FP8_MOST);
  const codes = new Uint8Array(x.length);
  packE4m3(
    x.map((value) => value / scale),
    codes,
  );
  unpackE4m3(codes, x);
  for (const [i, value] of x.entries()) x[i] = value * scale;
}
