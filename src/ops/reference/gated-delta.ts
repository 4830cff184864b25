// The gated delta rule of the reference backend, token by token.

import type { DeltaTokens } from '../ops.ts';
import { softplus } from '../softplus.ts';
import type { DeltaRule } from '../states.ts';
import { headStatesWidth } from '../states.ts';
import { expectTensor, RefTensor } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';
import { expectVector } from './vector.ts';

export function gatedDelta(tokens: DeltaTokens, step: RefStepInputs, rule: DeltaRule): RefTensor {
  const { keyHeads, keyDim, heads, valueDim, isTiled } = rule;
  const expected = (cols: number) => ({ rows: step.numTokens, cols, dtype: 'f32' }) as const;
  const q = expectTensor('gatedDelta', 'q', tokens.q, expected(keyHeads * keyDim));
  const k = expectTensor('gatedDelta', 'k', tokens.k, expected(keyHeads * keyDim));
  const v = expectTensor('gatedDelta', 'v', tokens.v, expected(heads * valueDim));
  const forgetting = expectTensor('gatedDelta', 'forgetting', tokens.forgetting, expected(heads));
  const writing = expectTensor('gatedDelta', 'writing', tokens.writing, expected(heads));
  const rates = expectVector('gatedDelta', 'rates', rule.rates, heads);
  const rateBias = expectVector('gatedDelta', 'rateBias', rule.rateBias, heads);
  const out = RefTensor.zeros(step.numTokens, heads * valueDim, 'f32');
  for (const { firstRow, endRow, state, saves } of step.statesOf('gatedDelta', rule, headStatesWidth(rule))) {
    for (let row = firstRow; row < endRow; row++) {
      for (let head = 0; head < heads; head++) {
        const keyHead = isTiled ? head % keyHeads : Math.floor((head * keyHeads) / heads);
        const key = (x: RefTensor) => x.row(row).subarray(keyHead * keyDim, (keyHead + 1) * keyDim);
        const value = (x: RefTensor) => x.row(row).subarray(head * valueDim, (head + 1) * valueDim);
        const decay = Math.exp(rates[head]! * softplus(forgetting.row(row)[head]! + rateBias[head]!));
        const share = 1 / (1 + Math.exp(-writing.row(row)[head]!));
        const own = state.subarray(head * keyDim * valueDim, (head + 1) * keyDim * valueDim);
        advance(own, { q: key(q), k: key(k), v: value(v), decay, share }, value(out));
      }
      for (const kept of saves) if (kept.endRow === row + 1) kept.state.set(state);
    }
  }
  return out;
}

interface HeadToken {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly decay: number;
  /** Of what is new. */
  readonly share: number;
}

/** state [keyDim, valueDim] by one token, and what the token reads of it. */
function advance(state: Float32Array, { q, k, v, decay, share }: HeadToken, out: Float32Array): void {
  const valueDim = v.length;
  for (let column = 0; column < valueDim; column++) {
    let known = 0;
    for (const [i, key] of k.entries()) known += key * state[i * valueDim + column]!;
    const change = (v[column]! - decay * known) * share;
    let read = 0;
    for (const [i, key] of k.entries()) {
      const place = i * valueDim + column;
      state[place] = decay * state[place]! + key * change;
      read += q[i]! * state[place]!;
    }
    out[column] = read;
  }
}
