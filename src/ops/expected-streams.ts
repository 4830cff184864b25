// Shapes of streams side by side that all backends expect.

import { ShapeError } from '../errors.ts';
import { MOST_STREAMS, type StreamMix, type Tensor } from './ops.ts';

/** @throws ShapeError where the other streams have another width than x, or no number may be the least. */
export function expectOthers({ cols }: Tensor, width: number, least: number): void {
  if (cols === 0 || cols % width !== 0)
    throw new ShapeError('joinStreams', `others in streams of ${width}`, `${cols} columns`);
  if (!(least > 0)) throw new ShapeError('joinStreams', 'a least mean above 0', `${least}`);
}

/**
 * How many streams are mixed, and how many come of it.
 * @throws ShapeError where the tensors do not hold whole streams, or the coefficients are not as many as that takes.
 */
export function expectMix(
  residual: Tensor,
  x: Tensor,
  numbers: Tensor,
  { width, coefficients }: StreamMix,
): { readonly inputs: number; readonly outputs: number } {
  const [inputs, outputs] = [x.cols / width, residual.cols / width];
  for (const [what, count] of Object.entries({ x: inputs, residual: outputs })) {
    if (Number.isInteger(count) && count >= 1 && count <= MOST_STREAMS) continue;
    throw new ShapeError(
      'addMixed',
      `${what} of 1 to ${MOST_STREAMS} streams of ${width}`,
      `${count * width} columns`,
    );
  }
  const expected = outputs * inputs * numbers.cols;
  if (coefficients.length !== expected)
    throw new ShapeError('addMixed', `${expected} coefficients`, `${coefficients.length}`);
  return { inputs, outputs };
}
