// Rotary position embedding of the reference backend.

import { ShapeError } from '../../errors.ts';
import type { RopeHeads, Tensor } from '../ops.ts';
import type { Vector } from '../weights.ts';
import { expectTensor } from './ref-tensor.ts';
import { expectVector } from './vector.ts';

/** Rotates pairs of each head in place; table [maxPositions, rotaryDim] = cosines | sines. */
export function rope(
  x: Tensor,
  positions: Int32Array,
  table: Vector,
  { headDim, first = 0, rotaryDim = headDim - first, isInterleaved = false }: RopeHeads,
): void {
  const input = expectTensor('rope', 'x', x, { rows: positions.length, dtype: 'f32' });
  const angles = expectVector('rope', 'table', table, table.length);
  if (headDim <= 0 || headDim % 2 !== 0 || x.cols % headDim !== 0)
    throw new ShapeError('rope', `columns in heads of an even size, ${headDim}`, `${x.cols} columns`);
  if (rotaryDim <= 0 || rotaryDim % 2 !== 0 || first + rotaryDim > headDim)
    throw new ShapeError('rope', `an even rotaryDim of at most ${headDim - first}`, `${rotaryDim}`);
  const maxPositions = angles.length / rotaryDim;
  for (let row = 0; row < x.rows; row++) {
    const position = positions[row]!;
    if (position < 0 || position >= maxPositions)
      throw new ShapeError('rope', `positions from 0 to ${maxPositions - 1}`, `${position} in row ${row}`);
    const turn = angles.subarray(position * rotaryDim, (position + 1) * rotaryDim);
    const values = input.row(row);
    for (let head = 0; head < x.cols; head += headDim)
      rotate(values.subarray(head + first, head + first + rotaryDim), turn, isInterleaved);
  }
}

function rotate(values: Float32Array, turn: Float32Array, isInterleaved: boolean): void {
  const half = turn.length / 2;
  for (let i = 0; i < half; i++) {
    const [first, second] = isInterleaved ? [2 * i, 2 * i + 1] : [i, half + i];
    const [cos, sin] = [turn[i]!, turn[half + i]!];
    const [a, b] = [values[first]!, values[second]!];
    values[first] = a * cos - b * sin;
    values[second] = b * cos + a * sin;
  }
}
