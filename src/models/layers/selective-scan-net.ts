// The layer of Mamba-2: one projection gives all that a token brings, which passes a short convolution and a selective scan; what is
// read passes a gate, and then a norm. The norm is over all heads, so that ranks do not share them.
// Source: Dao and Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space Duality", 2024.

import type { Tensor } from '../../ops/ops.ts';
import type { Convolution, SelectiveScan } from '../../ops/states.ts';
import { convolutionWidth, scanChannels } from '../state-shape.ts';
import { forgettingRates } from './forgetting-rates.ts';
import type { LoadBlock } from './layer.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** Names: in_proj, whose rows are gates, x, b, c and steps; conv1d, A_log (or rates), dt_bias, D, norm, out_proj. */
export const selectiveScanNet: LoadBlock = (context, layer, prefix) => {
  const { config, weights, cacheLayerOf } = context;
  const { hiddenSize, normEps } = config;
  const recurrent = config.recurrent!;
  const scan = recurrent.scan!;
  const { groups, stateDim, heads, hasProjectionBias: bias } = scan;
  const [width, channels] = [scan.heads * scan.headDim, scanChannels(scan)];
  const widths = [width, channels, heads];
  const input = weights.columns(
    [{ name: `${prefix}.in_proj`, n: width + channels + heads, bias }],
    hiddenSize,
  );
  const place = { layer: cacheLayerOf(layer), first: 0 };
  const convolution: Convolution = {
    ...place,
    weight: weights.taps(`${prefix}.conv1d.weight`, [channels], recurrent.taps),
    bias: recurrent.hasBias ? weights.ownNumbers(`${prefix}.conv1d.bias`, channels) : null,
    activation: 'silu',
  };
  const rule: SelectiveScan = {
    ...place,
    groups,
    stateDim,
    heads,
    headDim: scan.headDim,
    first: convolutionWidth(recurrent, channels),
    rates: forgettingRates(context, prefix, heads),
    stepBias: weights.ownNumbers(`${prefix}.dt_bias`, heads),
    skips: weights.ownNumbers(`${prefix}.D`, heads),
  };
  const norm = weights.vector(`${prefix}.norm.weight`, width);
  const output = weights.row({ name: `${prefix}.out_proj`, n: hiddenSize, bias }, width);
  const apply = (step: Step, h: Tensor): Tensor => {
    const { ops, inputs } = step;
    const [gates, brought, steps] = input.apply(step, h, widths);
    const convolved = ops.convolve(brought!, inputs, convolution);
    const [x, b, c] = ops.split(convolved, [width, groups * stateDim, groups * stateDim]);
    const read = ops.selectiveScan({ x: x!, b: b!, c: c!, steps: steps! }, inputs, rule);
    return ops.rmsNorm(ops.gate(read, gates!, 'silu', 'f32'), norm, normEps, output.inputDType);
  };
  return productBlock({ inputDType: input.inputDType, inner: apply, output });
};
