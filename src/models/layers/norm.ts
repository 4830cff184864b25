// The norms that stand before and behind the blocks of a layer, and before the output head.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { LayerContext } from './layer.ts';
import type { Step } from './step.ts';

/** x [tokens, hidden] f32 -> a new tensor [tokens, hidden] in `dtype`. */
export type Norm = (step: Pick<Step, 'ops'>, x: Tensor, dtype: ComputeDType) => Tensor;

/** @param name of the norm: its tensors are `name.weight` and, where it has one, `name.bias`. */
export type LoadNorm = (context: Pick<LayerContext, 'config' | 'weights'>, name: string) => Norm;

/** x / sqrt(mean(x²) + eps) * weight (Zhang and Sennrich, 2019). */
export const rmsNorm: LoadNorm = ({ config, weights }, name) => {
  const weight = weights.vector(`${name}.weight`, config.hiddenSize);
  return ({ ops }, x, dtype) => ops.rmsNorm(x, weight, config.normEps, dtype);
};
