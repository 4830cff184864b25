// Makes images larger or smaller: lines first, then columns, with weights in whole numbers. Models have been trained on images
// of torchvision, so the arithmetic is that of its antialiased resizing of bytes, to the bit: whoever changes it changes
// what models see.

import { CHANNELS, type Pixels } from './pixels.ts';

export type Filter = keyof typeof FILTERS;

interface Kernel {
  /** It is zero from here on, to both sides. */
  readonly support: number;
  weight(distance: number): number;
}

/** By the names that people know them by. */
const FILTERS = {
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, weight: (x) => cubic(Math.abs(x)) },
  lanczos: { support: 3, weight: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
} as const satisfies Record<string, Kernel>;

/** What all filters are where nothing changes, but quicker: each pixel is made of itself. */
const SAME: Kernel = { support: 0.5, weight: () => 1 };

/** Weights are numbers of 16 bits with a sign, as precise as they can be. */
const WEIGHT_BITS = 15;
const MOST_PRECISE = 22;

/** What each pixel of a new line is made of, in pixels of the old one. */
interface Taps {
  readonly starts: Int32Array;
  readonly counts: Int32Array;
  /** No less than any of `counts`: the weights of pixel i are at i * most. */
  readonly most: number;
}

interface ExactTaps extends Taps {
  /** Those of a pixel sum to 1. */
  readonly weights: Float64Array;
}

interface WholeTaps extends Taps {
  /** In units of 2^-precision. */
  readonly weights: Int32Array;
  readonly precision: number;
}

/** @returns the image itself where it has that size already. */
export function resize(image: Pixels, width: number, height: number, filter: Filter): Pixels {
  if (width === image.width && height === image.height) return image;
  const across = wholeTaps(image.width, width, width === image.width ? SAME : FILTERS[filter]);
  const down = wholeTaps(image.height, height, height === image.height ? SAME : FILTERS[filter]);
  const line = width * CHANNELS;
  const data = new Uint8ClampedArray(height * line);
  // Only as many narrowed lines are kept as one new line is made of: an image may be very long and very thin.
  const lines = Array.from({ length: down.most }, () => new Uint8ClampedArray(line));
  const sums = new Int32Array(line);
  let numLines = 0;
  for (let y = 0; y < height; y++) {
    const start = down.starts[y]!;
    const end = start + down.counts[y]!;
    for (; numLines < end; numLines++) resizeLine(image, numLines, across, lines[numLines % down.most]!);
    sums.fill(2 ** (down.precision - 1));
    for (let source = start; source < end; source++) {
      addLine(sums, lines[source % down.most]!, down.weights[y * down.most + source - start]!);
    }
    for (let i = 0; i < line; i++) data[y * line + i] = sums[i]! >> down.precision;
  }
  return { width, height, data: new Uint8Array(data.buffer) };
}

function addLine(sums: Int32Array, line: Uint8ClampedArray, weight: number): void {
  for (let i = 0; i < sums.length; i++) sums[i] = sums[i]! + weight * line[i]!;
}

function resizeLine({ width, data }: Pixels, y: number, taps: WholeTaps, line: Uint8ClampedArray): void {
  const { starts, counts, most, weights, precision } = taps;
  const half = 1 << (precision - 1);
  for (let x = 0; x < starts.length; x++) {
    let red = half;
    let green = half;
    let blue = half;
    let source = (y * width + starts[x]!) * CHANNELS;
    for (let tap = x * most; tap < x * most + counts[x]!; tap++, source += CHANNELS) {
      const weight = weights[tap]!;
      red = (red + weight * data[source]!) | 0;
      green = (green + weight * data[source + 1]!) | 0;
      blue = (blue + weight * data[source + 2]!) | 0;
    }
    line[x * CHANNELS] = red >> precision;
    line[x * CHANNELS + 1] = green >> precision;
    line[x * CHANNELS + 2] = blue >> precision;
  }
}

function wholeTaps(from: number, to: number, kernel: Kernel): WholeTaps {
  const { weights: exact, ...taps } = exactTaps(from, to, kernel);
  const precision = finestPrecision(exact.reduce((largest, one) => Math.max(largest, one), 0));
  // Halves are rounded away from zero.
  const weights = Int32Array.from(exact, (one) => Math.trunc(one * 2 ** precision + (one < 0 ? -0.5 : 0.5)));
  return { ...taps, weights, precision };
}

/** How a line of numbers becomes longer or shorter. */
export function exactTaps(
  from: number,
  to: number,
  { support, weight }: Kernel = FILTERS.bilinear,
): ExactTaps {
  const scale = from / to;
  // A smaller image is blurred before: the kernel is as wide as its pixels.
  const stretch = Math.max(scale, 1);
  const reach = support * stretch;
  const most = Math.ceil(reach) * 2 + 1;
  const starts = new Int32Array(to);
  const counts = new Int32Array(to);
  const exact = new Float64Array(to * most);
  for (let i = 0; i < to; i++) {
    const centre = scale * (i + 0.5);
    const start = Math.max(Math.trunc(centre - reach + 0.5), 0);
    const count = Math.min(Math.min(Math.trunc(centre + reach + 0.5), from) - start, most);
    const own = exact.subarray(i * most, i * most + count);
    for (let tap = 0; tap < count; tap++) own[tap] = weight((tap + start - centre + 0.5) / stretch);
    const sum = own.reduce((total, one) => total + one, 0);
    for (let tap = 0; tap < count; tap++) own[tap]! /= sum;
    starts[i] = start;
    counts[i] = count;
  }
  return { starts, counts, most, weights: exact };
}

/** With which the largest weight still has 16 bits. */
function finestPrecision(largest: number): number {
  let precision = 0;
  while (precision < MOST_PRECISE && Math.trunc(0.5 + largest * 2 ** (precision + 1)) < 2 ** WEIGHT_BITS) {
    precision++;
  }
  return precision;
}

function cubic(x: number): number {
  const a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}
