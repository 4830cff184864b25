// The norms before and after the blocks of a layer, and before the output head.

import type { ComputeDType } from '../../ops/dtype.ts';
import type { Tensor } from '../../ops/ops.ts';
import type { Vector } from '../../ops/weights.ts';
import type { Layer, LayerContext } from './layer.ts';
import type { Step } from './step.ts';

/** x [tokens, hidden] f32 -> a new tensor [tokens, hidden] in `dtype`. */
export type Norm = (step: Pick<Step, 'ops'>, x: Tensor, dtype: ComputeDType) => Tensor;

/** @param name of the norm: its tensors are `name.weight` and, where it has one, `name.bias`. */
export type LoadNorm = (context: NormContext, name: string) => Norm;

type NormContext = Pick<LayerContext, 'config' | 'weights'>;

/** x / sqrt(mean(x²) + eps) * weight (Zhang and Sennrich, 2019). */
export const rmsNorm: LoadNorm = ({ config, weights }, name) => {
  const weight = weights.vector(`${name}.weight`, config.hiddenSize);
  return ({ ops }, x, dtype) => ops.rmsNorm(x, weight, config.normEps, dtype);
};

/** x [tokens, own columns] -> the same in `dtype`, normalised over the columns of all ranks. */
export type NormOfColumns = (step: Pick<Step, 'ops'>, x: Tensor, dtype: ComputeDType) => Tensor;

/** @param width columns of all ranks together. */
export function rmsNormOfColumns(
  { config, weights }: NormContext,
  name: string,
  width: number,
): NormOfColumns {
  const weight = weights.vector(`${name}.weight`, width);
  const widths = weights.share.widths(width);
  return ({ ops }, x, dtype) => {
    const whole = ops.gatherColumns(x, widths);
    const normed = ops.rmsNorm(
      whole.dtype === 'f32' ? whole : ops.cast(whole, 'f32'),
      weight,
      config.normEps,
      dtype,
    );
    return ops.split(normed, widths)[ops.ranks.rank]!;
  };
}

/** The same where weights are published as what they differ from 1. */
export const rmsNormAround1: LoadNorm = ({ config, weights }, name) => {
  const weight = weights.vector(`${name}.weight`, config.hiddenSize, 1);
  return ({ ops }, x, dtype) => ops.rmsNorm(x, weight, config.normEps, dtype);
};

/** (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias (Ba, Kiros and Hinton, 2016). */
export const layerNorm: LoadNorm = (context, name) => makeLayerNorm(context, name, biasOf(context, name));

/** The same where weights are published as what they differ from 1. */
export const layerNormAround1: LoadNorm = (context, name) =>
  makeLayerNorm(context, name, biasOf(context, name), 1);

export const layerNormWithoutBias: LoadNorm = (context, name) => makeLayerNorm(context, name, null);

/** The same with neither weight nor bias. */
export const layerNormWithoutWeight: LoadNorm = ({ config, weights }) => {
  const ones = weights.constant(config.hiddenSize, 1);
  return ({ ops }, x, dtype) => ops.layerNorm(x, ones, null, config.normEps, dtype);
};

/** Of the stream itself, as where norms come after the blocks. */
export function layerNormInPlace(context: NormContext, name: string, hasBias = true): Layer {
  const { config, weights } = context;
  const weight = weights.vector(`${name}.weight`, config.hiddenSize);
  const bias = hasBias ? weights.vector(`${name}.bias`, config.hiddenSize) : null;
  return (x, { ops }) => ops.layerNormInPlace(x, weight, bias, config.normEps);
}

function biasOf({ config, weights }: NormContext, name: string): Vector {
  return weights.vector(`${name}.bias`, config.hiddenSize);
}

function makeLayerNorm(
  { config, weights }: NormContext,
  name: string,
  bias: Vector | null,
  offset = 0,
): Norm {
  const weight = weights.vector(`${name}.weight`, config.hiddenSize, offset);
  return ({ ops }, x, dtype) => ops.layerNorm(x, weight, bias, config.normEps, dtype);
}
