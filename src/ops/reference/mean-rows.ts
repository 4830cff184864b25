// Means of rows of the reference backend.

import { ShapeError } from '../../errors.ts';
import type { Tensor } from '../ops.ts';
import { expectTensor, RefTensor } from './ref-tensor.ts';

/** x [tokens, cols] f32 -> f32 [starts.length - 1, cols]: the mean of rows starts[i] up to starts[i + 1] - 1. */
export function meanRows(x: Tensor, starts: Int32Array): RefTensor {
  const input = expectTensor('meanRows', 'x', x, { dtype: 'f32' });
  const isRising = starts.every((start, i) => start >= 0 && (i === 0 || start > starts[i - 1]!));
  if (starts.length === 0 || !isRising || starts.at(-1)! > x.rows)
    throw new ShapeError('meanRows', `starts that rise, up to ${x.rows}`, starts.join(', '));
  const out = RefTensor.zeros(starts.length - 1, x.cols, 'f32');
  for (let i = 0; i < out.rows; i++) {
    const sums = new Float64Array(x.cols);
    for (let row = starts[i]!; row < starts[i + 1]!; row++) {
      for (const [col, value] of input.row(row).entries()) sums[col]! += value;
    }
    out.row(i).set(sums.map((sum) => sum / (starts[i + 1]! - starts[i]!)));
  }
  return out;
}
