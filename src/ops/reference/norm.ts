// Norms of the reference backend, over whole rows and over single heads.

import { ShapeError } from '../../errors.ts';
import type { ComputeDType } from '../dtype.ts';
import type { Tensor } from '../ops.ts';
import type { Vector } from '../weights.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';
import { expectVector } from './vector.ts';

/** x [tokens, cols] f32 -> [tokens, cols] in `dtype`: x / sqrt(mean(x²) + eps) * weight, of each group of columns by itself. */
export function rmsNorm(
  x: Tensor,
  weight: Vector,
  eps: number,
  dtype: ComputeDType,
  groups: number,
): RefTensor {
  const scale = expectVector('rmsNorm', 'weight', weight, x.cols);
  const input = expectTensor('rmsNorm', 'x', x, { dtype: 'f32' });
  if (groups < 1 || x.cols % groups !== 0)
    throw new ShapeError('rmsNorm', `${groups} groups of one size`, `${x.cols}`);
  const width = x.cols / groups;
  const out = RefTensor.zeros(x.rows, x.cols, dtype);
  for (let row = 0; row < x.rows; row++) {
    for (let first = 0; first < x.cols; first += width) {
      const of = (numbers: Float32Array) => numbers.subarray(first, first + width);
      normalise(of(input.row(row)), of(scale), eps, of(out.row(row)));
    }
  }
  return roundToDType(out);
}

/** x [tokens, cols] f32 -> [tokens, cols] in `dtype`: (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias. */
export function layerNorm(
  x: Tensor,
  weight: Vector,
  bias: Vector | null,
  eps: number,
  dtype: ComputeDType,
): RefTensor {
  const out = RefTensor.zeros(x.rows, x.cols, dtype);
  normaliseRows(x, weight, bias, eps, out);
  return roundToDType(out);
}

/** layerNorm of x [tokens, cols] f32, in place. */
export function layerNormInPlace(x: Tensor, weight: Vector, bias: Vector | null, eps: number): void {
  normaliseRows(x, weight, bias, eps, expectTensor('layerNorm', 'x', x, { dtype: 'f32' }));
}

function normaliseRows(x: Tensor, weight: Vector, bias: Vector | null, eps: number, out: RefTensor): void {
  const scale = expectVector('layerNorm', 'weight', weight, x.cols);
  const shift = bias && expectVector('layerNorm', 'bias', bias, x.cols);
  const input = expectTensor('layerNorm', 'x', x, { dtype: 'f32' });
  for (let row = 0; row < x.rows; row++) {
    const values = standardise(input.row(row), eps);
    out.row(row).set(values.map((value, i) => value * scale[i]! + (shift?.[i] ?? 0)));
  }
}

/** Each head of x [tokens, heads * headDim] f32 normalised by itself, in place; weight [headDim]. */
export function qkNorm(x: Tensor, weight: Vector, eps: number): void {
  const scale = expectVector('qkNorm', 'weight', weight, weight.length);
  const headDim = weight.length;
  const input = expectTensor('qkNorm', 'x', x, { dtype: 'f32' });
  if (headDim === 0 || x.cols % headDim !== 0)
    throw new ShapeError('qkNorm', `columns in heads of ${headDim}`, `${x.cols} columns`);
  for (let row = 0; row < x.rows; row++) {
    const values = input.row(row);
    for (let start = 0; start < x.cols; start += headDim) {
      const head = values.subarray(start, start + headDim);
      normalise(head, scale, eps, head);
    }
  }
}

/**
 * Each head of x [tokens, heads * headDim] f32 brought to mean 0 and variance 1 by itself and scaled by its own row of weight
 * [heads * headDim], in place.
 */
export function headLayerNorm(x: Tensor, weight: Vector, headDim: number, eps: number): void {
  const scale = expectVector('headLayerNorm', 'weight', weight, x.cols);
  const input = expectTensor('headLayerNorm', 'x', x, { dtype: 'f32' });
  if (headDim === 0 || x.cols % headDim !== 0)
    throw new ShapeError('headLayerNorm', `columns in heads of ${headDim}`, `${x.cols} columns`);
  for (let row = 0; row < x.rows; row++) {
    const values = input.row(row);
    for (let start = 0; start < x.cols; start += headDim) {
      const head = standardise(values.subarray(start, start + headDim), eps);
      values.set(
        head.map((value, i) => value * scale[start + i]!),
        start,
      );
    }
  }
}

/** (x - mean(x)) / sqrt(variance(x) + eps) */
function standardise(values: Float32Array, eps: number): Float32Array {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return values.map((value) => (value - mean) / Math.sqrt(variance + eps));
}

function normalise(values: Float32Array, weight: Float32Array, eps: number, out: Float32Array): void {
  let squares = 0;
  for (const value of values) squares += value * value;
  const factor = 1 / Math.sqrt(squares / values.length + eps);
  for (let i = 0; i < values.length; i++) out[i] = values[i]! * factor * weight[i]!;
}
