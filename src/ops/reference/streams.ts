// Streams side by side in the rows of the reference backend.

import { expectMix, expectOthers } from '../expected-streams.ts';
import type { StreamMix, Tensor } from '../ops.ts';
import { expectTensor, RefTensor } from './ref-tensor.ts';
import { expectVector } from './vector.ts';

/** x [tokens, width] f32, others [tokens, n * width] f32 -> [tokens, (n + 1) * width] f32: x, and the others with its magnitude. */
export function joinStreams(x: Tensor, others: Tensor, least: number): RefTensor {
  const { rows, cols: width } = x;
  expectOthers(others, width, least);
  const [first, rest] = [
    expectTensor('joinStreams', 'x', x, { dtype: 'f32' }),
    expectTensor('joinStreams', 'others', others, { rows, dtype: 'f32' }),
  ];
  const out = RefTensor.zeros(rows, width + others.cols, 'f32');
  for (let row = 0; row < rows; row++) {
    const joined = out.row(row);
    joined.set(first.row(row));
    const magnitude = Math.sqrt(meanSquare(first.row(row)));
    for (let start = 0; start < others.cols; start += width) {
      const stream = rest.row(row).subarray(start, start + width);
      const factor = magnitude / Math.sqrt(Math.max(meanSquare(stream), least));
      joined.set(
        stream.map((value) => value * factor),
        width + start,
      );
    }
  }
  return out;
}

function meanSquare(values: Float32Array): number {
  return values.reduce((sum, value) => sum + value * value, 0) / values.length;
}

/** residual [tokens, outputs * width] f32 += mixes of the streams of x [tokens, inputs * width] f32. */
export function addMixed(residual: Tensor, x: Tensor, numbers: Tensor, mix: StreamMix): void {
  const { rows } = x;
  const { inputs, outputs } = expectMix(residual, x, numbers, mix);
  const coefficients = expectVector('addMixed', 'coefficients', mix.coefficients, mix.coefficients.length);
  const [sum, from, own] = [
    expectTensor('addMixed', 'residual', residual, { rows, dtype: 'f32' }),
    expectTensor('addMixed', 'x', x, { dtype: 'f32' }),
    expectTensor('addMixed', 'numbers', numbers, { rows, dtype: 'f32' }),
  ];
  const count = numbers.cols;
  for (let row = 0; row < rows; row++) {
    const [into, before, given] = [sum.row(row), from.row(row).slice(), own.row(row)];
    for (let pair = 0; pair < outputs * inputs; pair++) {
      const [a, b] = [Math.floor(pair / inputs), pair % inputs];
      const of = coefficients.subarray(pair * count, (pair + 1) * count);
      const factor = given.reduce((all, number, i) => all + number * of[i]!, mix.offset);
      for (let i = 0; i < mix.width; i++) into[a * mix.width + i]! += factor * before[b * mix.width + i]!;
    }
  }
}
