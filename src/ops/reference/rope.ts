// Rotary position embedding of the reference backend.

import { ShapeError } from '../../errors.ts';
import type { RopeHeads, RopeSections, Tensor } from '../ops.ts';
import type { Vector } from '../weights.ts';
import { expectTensor } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';
import { expectVector } from './vector.ts';

/** Rotates pairs of each head in place; table [maxPositions, rotaryDim] = cosines | sines. */
export function rope(x: Tensor, step: RefStepInputs, table: Vector, heads: RopeHeads): void {
  const { headDim, first = 0, rotaryDim = headDim - first, isInterleaved = false, sections } = heads;
  const { numTokens, positions, planePositions } = step;
  const input = expectTensor('rope', 'x', x, { rows: numTokens, dtype: 'f32' });
  const angles = expectVector('rope', 'table', table, table.length);
  if (headDim <= 0 || headDim % 2 !== 0 || x.cols % headDim !== 0)
    throw new ShapeError('rope', `columns in heads of an even size, ${headDim}`, `${x.cols} columns`);
  if (rotaryDim <= 0 || rotaryDim % 2 !== 0 || first + rotaryDim > headDim)
    throw new ShapeError('rope', `an even rotaryDim of at most ${headDim - first}`, `${rotaryDim}`);
  const maxPositions = angles.length / rotaryDim;
  const planes = planesOfPairs(rotaryDim / 2, sections);
  const places = [positions, planePositions.subarray(0, numTokens), planePositions.subarray(numTokens)];
  for (let row = 0; row < x.rows; row++) {
    const turn = turnOf(angles, rotaryDim, planes, (plane) => {
      const place = places[plane]![row]!;
      if (place >= 0 && place < maxPositions) return place;
      throw new ShapeError('rope', `positions from 0 to ${maxPositions - 1}`, `${place} in row ${row}`);
    });
    const values = input.row(row);
    for (let head = 0; head < x.cols; head += headDim)
      rotate(values.subarray(head + first, head + first + rotaryDim), turn, isInterleaved);
  }
}

/** [pairs] what a pair turns by: 0 is the position, 1 the line, 2 the column. */
function planesOfPairs(pairs: number, sections?: RopeSections): number[] {
  const { lines, columns, alternate } = sections ?? { lines: 0, columns: 0, alternate: false };
  const firstOfPlanes = pairs - lines - columns;
  if (lines < 0 || columns < 0 || firstOfPlanes < 0)
    throw new ShapeError('rope', `sections of ${pairs} pairs`, `${lines} and ${columns}`);
  return Array.from({ length: pairs }, (_, pair) => {
    if (alternate) return pair < 3 * [0, lines, columns][pair % 3]! ? pair % 3 : 0;
    if (pair < firstOfPlanes) return 0;
    return pair < firstOfPlanes + lines ? 1 : 2;
  });
}

/** [rotaryDim] cosines and sines of a token. */
function turnOf(
  angles: Float32Array,
  rotaryDim: number,
  planes: readonly number[],
  placeIn: (plane: number) => number,
): Float32Array {
  const turn = new Float32Array(rotaryDim);
  for (const [pair, plane] of planes.entries()) {
    const place = placeIn(plane);
    turn[pair] = angles[place * rotaryDim + pair]!;
    turn[planes.length + pair] = angles[place * rotaryDim + planes.length + pair]!;
  }
  return turn;
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
