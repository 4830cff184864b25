// When requests are sent: gaps are gamma distributed with a mean of 1 / rate. A burstiness of 1 is a Poisson process, less
// comes in bursts, more is even.

import { uniform } from '../../../sampling/random-stream.ts';

/** Apart from the streams of prompts. */
const STREAM = 1 << 20;

export interface ArrivalOptions {
  /** Requests a second; null sends all at once. */
  readonly rate: number | null;
  readonly burstiness: number;
  readonly seed: number;
}

/** Seconds since the beginning, in rising order. */
export function arrivals(count: number, { rate, burstiness, seed }: ArrivalOptions): number[] {
  if (rate === null) return new Array<number>(count).fill(0);
  let at = 0;
  return Array.from({ length: count }, (_, i) => {
    const before = at;
    at += gamma(burstiness, seed, STREAM + i) / (rate * burstiness);
    return before;
  });
}

/**
 * A gamma variate of scale 1: Marsaglia and Tsang, A simple method for generating gamma variables (2000), whose shapes
 * below 1 are made of those above.
 */
function gamma(shape: number, seed: number, stream: number): number {
  const numbers = uniforms(seed, stream);
  const boost = shape < 1 ? next(numbers) ** (1 / shape) : 1;
  const d = (shape < 1 ? shape + 1 : shape) - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = Math.sqrt(-2 * Math.log(next(numbers))) * Math.cos(2 * Math.PI * next(numbers));
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(next(numbers)) < 0.5 * x * x + d - d * v + d * Math.log(v)) return boost * d * v;
  }
}

function* uniforms(seed: number, stream: number): Generator<number, never> {
  // Never 0, whose logarithm has no end.
  for (let i = 0; ; i += 1) yield Math.max(uniform(seed, stream, i), Number.MIN_VALUE);
}

function next(numbers: Generator<number, never>): number {
  return numbers.next().value;
}
