// Convolutions over time of the reference backend.

import type { Tensor } from '../ops.ts';
import type { Convolution } from '../states.ts';
import { ACTIVATIONS } from './elementwise.ts';
import { expectTensor, RefTensor } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';
import { expectVector } from './vector.ts';

/** x [tokens, channels] f32 -> the same shape: each token with those before it, of which the state remembers the last ones. */
export function convolve(x: Tensor, step: RefStepInputs, how: Convolution): RefTensor {
  const { rows, cols: channels } = x;
  const input = expectTensor('convolve', 'x', x, { rows: step.numTokens, dtype: 'f32' });
  const taps = how.weight.length / channels;
  const weight = expectVector('convolve', 'weight', how.weight, Math.ceil(taps) * channels);
  const bias = how.bias ? expectVector('convolve', 'bias', how.bias, channels) : null;
  const out = RefTensor.zeros(rows, channels, 'f32');
  for (const { firstRow, endRow, state, saves } of step.statesOf('convolve', how, (taps - 1) * channels)) {
    /** That of `before` tokens before the first row is the state's. */
    const inputAt = (row: number): Float32Array => {
      if (row >= firstRow) return input.row(row);
      const place = (row - firstRow + taps - 1) * channels;
      return state.subarray(place, place + channels);
    };
    for (let row = firstRow; row < endRow; row++) {
      const to = out.row(row);
      if (bias !== null) to.set(bias);
      for (let tap = 0; tap < taps; tap++) {
        const from = inputAt(row - (taps - 1) + tap);
        for (let i = 0; i < channels; i++) to[i]! += from[i]! * weight[tap * channels + i]!;
      }
      if (how.activation === 'silu') to.set(to.map(ACTIVATIONS.silu));
    }
    for (const kept of [...saves, { endRow, state }]) {
      const last = Array.from({ length: taps - 1 }, (_, i) => inputAt(kept.endRow - (taps - 1) + i).slice());
      for (const [i, values] of last.entries()) kept.state.set(values, i * channels);
    }
  }
  return out;
}
