// Ops of the reference backend that take each number by itself.

import { ShapeError } from '../../errors.ts';
import { normalShare } from '../../util/normal-distribution.ts';
import type { Activation, GatedActivation, Xielu } from '../activation.ts';
import type { ComputeDType } from '../dtype.ts';
import type { Gate, Tensor } from '../ops.ts';
import type { Vector } from '../weights.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';
import { expectVector } from './vector.ts';

/** Of one number. */
export const ACTIVATIONS: Readonly<Record<Activation, (x: number) => number>> = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => x * normalShare(x),
  relu: (x) => Math.max(x, 0),
  relu2: (x) => Math.max(x, 0) ** 2,
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

/** Of a gate and what it lets through. */
export const GATED_ACTIVATIONS: Readonly<Record<GatedActivation, (gate: number, up: number) => number>> = {
  silu: (gate, up) => ACTIVATIONS.silu(gate) * up,
  gelu: (gate, up) => ACTIVATIONS.gelu(gate) * up,
  gelu_tanh: (gate, up) => ACTIVATIONS.gelu_tanh(gate) * up,
  relu: (gate, up) => ACTIVATIONS.relu(gate) * up,
  relu2: (gate, up) => ACTIVATIONS.relu2(gate) * up,
  clamped_swiglu: (gate, up) => {
    const clamped = Math.min(gate, 7);
    return (clamped / (1 + Math.exp(-1.702 * clamped))) * (Math.max(-7, Math.min(up, 7)) + 1);
  },
};

/** x [tokens, cols] f32 -> [tokens, cols] in `dtype`. */
export function activate(x: Tensor, activation: Activation, dtype: ComputeDType): RefTensor {
  return map('activate', x, dtype, ACTIVATIONS[activation]);
}

export function xielu(
  x: Tensor,
  { positive, negative, linear, least }: Xielu,
  dtype: ComputeDType,
): RefTensor {
  return map('xielu', x, dtype, (value) => {
    const curved =
      value > 0 ? positive * value * value : negative * (Math.expm1(Math.min(value, least)) - value);
    return curved + linear * value;
  });
}

const GATES: Readonly<Record<Gate, (x: number) => number>> = {
  silu: ACTIVATIONS.silu,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  identity: (x) => x,
};

/** x, gate [tokens, cols] -> [tokens, cols] in `dtype`: x * opening(gate). */
export function gate(x: Tensor, by: Tensor, opening: Gate, dtype: ComputeDType): RefTensor {
  const { rows, cols } = x;
  const input = expectTensor('gate', 'x', x, {});
  const gates = expectTensor('gate', 'gate', by, { rows, cols, dtype: 'f32' });
  const open = GATES[opening];
  const out = RefTensor.zeros(rows, cols, dtype);
  for (let row = 0; row < rows; row++) {
    const own = gates.row(row);
    out.row(row).set(input.row(row).map((value, i) => value * open(own[i]!)));
  }
  return roundToDType(out);
}

export function cast(x: Tensor, dtype: ComputeDType): RefTensor {
  const input = expectTensor('cast', 'x', x, {});
  const out = RefTensor.zeros(x.rows, x.cols, dtype);
  for (let row = 0; row < x.rows; row++) out.row(row).set(input.row(row));
  return roundToDType(out);
}

/** residual [tokens, cols] f32 += x [tokens, cols] f32 * factor, rounded after each step. */
export function addScaled(residual: Tensor, x: Tensor, factor: number): void {
  const input = expectTensor('addScaled', 'x', x, { dtype: 'f32' });
  const { rows, cols } = x;
  const sum = expectTensor('addScaled', 'residual', residual, { rows, cols, dtype: 'f32' });
  const inF32 = Math.fround(factor);
  for (let row = 0; row < rows; row++) {
    const [into, from] = [sum.row(row), input.row(row)];
    for (let i = 0; i < cols; i++) into[i]! += Math.fround(from[i]! * inF32);
  }
}

export function scale(x: Tensor, factor: number): void {
  const inF32 = Math.fround(factor);
  change('scale', x, (value) => value * inF32);
}

export function softcap(x: Tensor, cap: number): void {
  if (!(cap > 0)) throw new ShapeError('softcap', 'a cap above 0', `${cap}`);
  change('softcap', x, (value) => cap * Math.tanh(value / cap));
}

export function clip(x: Tensor, least: number, most: number): void {
  if (!(least <= most)) throw new ShapeError('clip', `a least number up to ${most}`, `${least}`);
  change('clip', x, (value) => Math.min(Math.max(value, least), most));
}

export function scaleColumns(x: Tensor, factors: Vector, dtype: ComputeDType): RefTensor {
  const by = expectVector('scaleColumns', 'factors', factors, x.cols);
  return map('scaleColumns', x, dtype, (value, i) => value * by[i]!);
}

/** x [tokens, cols] f32 = max(0, x - (mean + deviations * standard deviation)), in place. */
export function sparsify(x: Tensor, deviations: number): void {
  const input = expectTensor('sparsify', 'x', x, { dtype: 'f32' });
  for (let row = 0; row < x.rows; row++) {
    const values = input.row(row);
    const mean = values.reduce((sum, value) => sum + value, 0) / x.cols;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.cols;
    const least = mean + deviations * Math.sqrt(variance);
    values.set(values.map((value) => Math.max(0, value - least)));
  }
}

function map(
  op: string,
  x: Tensor,
  dtype: ComputeDType,
  of: (value: number, column: number) => number,
): RefTensor {
  const input = expectTensor(op, 'x', x, { dtype: 'f32' });
  const out = RefTensor.zeros(x.rows, x.cols, dtype);
  for (let row = 0; row < x.rows; row++) out.row(row).set(input.row(row).map(of));
  return roundToDType(out);
}

function change(op: string, x: Tensor, of: (value: number) => number): void {
  const input = expectTensor(op, 'x', x, { dtype: 'f32' });
  for (let row = 0; row < x.rows; row++) {
    const values = input.row(row);
    values.set(values.map(of));
  }
}
