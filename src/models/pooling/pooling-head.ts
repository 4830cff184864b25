// What a pooling model makes of the states that stand for its sequences: a few small products after the layers.

import type { Ops, Tensor } from '../../ops/ops.ts';
import type { LinearWeight } from '../../ops/weights.ts';
import type { Checkpoint } from '../source/checkpoint.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import type { EmbeddingConfig, HeadActivation } from './pooling-config.ts';

/** states [rows, hidden] f32 -> the model's numbers for them, [rows, `pooledSize`] f32. */
export type PoolingHead = (ops: Ops, states: Tensor) => Tensor;

/** One after the other. */
export function headOf(...parts: readonly PoolingHead[]): PoolingHead {
  return (ops, states) => parts.reduce((x, part) => part(ops, x), states);
}

export function product(weight: LinearWeight): PoolingHead {
  const { inputDType } = weight;
  return (ops, x) => ops.linear(inputDType === 'f32' ? x : ops.cast(x, inputDType), weight);
}

export function activated(activation: HeadActivation): PoolingHead {
  if (activation === 'none') return (_, x) => x;
  if (activation !== 'tanh') return (ops, x) => ops.activate(x, activation, 'f32');
  return (ops, x) => {
    // A cap of 1 is the tangent alone.
    ops.softcap(x, 1);
    return x;
  };
}

/** @throws ModelLoadError where a tensor of the dense layers is missing or has another shape. */
export function expectDense(checkpoint: Checkpoint, { dense }: EmbeddingConfig): void {
  for (const { name, inputs, outputs, hasBias } of dense) {
    checkpoint.find(`${name}.linear.weight`, [outputs, inputs]);
    if (hasBias) checkpoint.find(`${name}.linear.bias`, [outputs]);
  }
}

/** The dense layers of an embedding model; null where it has none. */
export function loadDense(weights: WeightReader, { dense }: EmbeddingConfig): PoolingHead | null {
  if (dense.length === 0) return null;
  const parts = dense.flatMap(({ name, inputs, outputs, hasBias, activation }) => [
    product(weights.classifier(`${name}.linear`, outputs, inputs, hasBias)),
    activated(activation),
  ]);
  return headOf(...parts);
}
