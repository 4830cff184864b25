// The selective scan of the reference backend, token by token.

import type { ScanTokens } from '../ops.ts';
import { softplus } from '../softplus.ts';
import { headStatesWidth, type SelectiveScan } from '../states.ts';
import { expectTensor, RefTensor } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';
import { expectVector } from './vector.ts';

export function selectiveScan(tokens: ScanTokens, step: RefStepInputs, scan: SelectiveScan): RefTensor {
  const { groups, stateDim, heads, headDim } = scan;
  const expected = (cols: number) => ({ rows: step.numTokens, cols, dtype: 'f32' }) as const;
  const x = expectTensor('selectiveScan', 'x', tokens.x, expected(heads * headDim));
  const b = expectTensor('selectiveScan', 'b', tokens.b, expected(groups * stateDim));
  const c = expectTensor('selectiveScan', 'c', tokens.c, expected(groups * stateDim));
  const steps = expectTensor('selectiveScan', 'steps', tokens.steps, expected(heads));
  const rates = expectVector('selectiveScan', 'rates', scan.rates, heads);
  const stepBias = expectVector('selectiveScan', 'stepBias', scan.stepBias, heads);
  const skips = expectVector('selectiveScan', 'skips', scan.skips, heads);
  const out = RefTensor.zeros(step.numTokens, heads * headDim, 'f32');
  const width = headStatesWidth({ heads, keyDim: stateDim, valueDim: headDim });
  for (const { firstRow, endRow, state, saves } of step.statesOf('selectiveScan', scan, width)) {
    for (let row = firstRow; row < endRow; row++) {
      for (let head = 0; head < heads; head++) {
        const group = Math.floor((head * groups) / heads);
        const ofGroup = (tensor: RefTensor) =>
          tensor.row(row).subarray(group * stateDim, (group + 1) * stateDim);
        const ofHead = (tensor: RefTensor) => tensor.row(row).subarray(head * headDim, (head + 1) * headDim);
        const time = softplus(steps.row(row)[head]! + stepBias[head]!);
        const decay = Math.exp(rates[head]! * time);
        const own = state.subarray(head * stateDim * headDim, (head + 1) * stateDim * headDim);
        const token = { x: ofHead(x), b: ofGroup(b), c: ofGroup(c), time, decay, skip: skips[head]! };
        advance(own, token, ofHead(out));
      }
      for (const kept of saves) if (kept.endRow === row + 1) kept.state.set(state);
    }
  }
  return out;
}

interface HeadToken {
  readonly x: Float32Array;
  readonly b: Float32Array;
  readonly c: Float32Array;
  readonly time: number;
  readonly decay: number;
  readonly skip: number;
}

/** state [stateDim, headDim] by one token, and what the token reads of it. */
function advance(state: Float32Array, { x, b, c, time, decay, skip }: HeadToken, out: Float32Array): void {
  for (const [column, value] of x.entries()) {
    let read = skip * value;
    for (const [i, factor] of b.entries()) {
      const place = i * x.length + column;
      state[place] = decay * state[place]! + factor * time * value;
      read += c[i]! * state[place]!;
    }
    out[column] = read;
  }
}
