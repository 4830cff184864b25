// The layer of Mamba-2: one projection gives all that a token brings, which passes a short convolution and a selective scan; what is
// read passes a gate, and then a norm, of all heads or of groups of them. Ranks share the heads.
// Source: Dao and Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space Duality", 2024.

import type { Tensor } from '../../ops/ops.ts';
import type { Convolution, SelectiveScan } from '../../ops/states.ts';
import type { ScanConfig } from '../recurrent-config.ts';
import { convolutionWidth, scanChannels, shareOfScan } from '../state-shape.ts';
import type { ChannelRanges, Projection } from '../weights/weight-reader.ts';
import { forgettingRates } from './forgetting-rates.ts';
import type { LayerContext, LoadBlock } from './layer.ts';
import type { ColumnParallelLinears } from './linear.ts';
import { productBlock } from './product-block.ts';
import type { Step } from './step.ts';

/** Names: in_proj, whose rows are gates, x, b, c and steps; conv1d, A_log (or rates), dt_bias, D, norm, out_proj. */
export const selectiveScanNet: LoadBlock = (context, layer, prefix) => {
  const { config, weights, cacheLayerOf } = context;
  const { hiddenSize, normEps } = config;
  const recurrent = config.recurrent!;
  const scan = recurrent.scan!;
  const own = shareOfScan(scan, weights.share);
  const width = scan.heads * scan.headDim;
  const [ownWidth, ofGroups] = [own.heads * own.headDim, own.groups * own.stateDim];
  const input = inputProjections(context, prefix, scan);
  const place = { layer: cacheLayerOf(layer), first: 0 };
  const channels = channelsOf(scan);
  const convolution: Convolution = {
    ...place,
    weight: weights.taps(`${prefix}.conv1d.weight`, channels, recurrent.taps),
    bias: recurrent.hasBias ? weights.channelNumbers(`${prefix}.conv1d.bias`, channels) : null,
    activation: 'silu',
  };
  const rule: SelectiveScan = {
    ...place,
    ...own,
    first: convolutionWidth(recurrent, scanChannels(own)),
    rates: forgettingRates(context, prefix, scan.heads),
    stepBias: weights.ownNumbers(`${prefix}.dt_bias`, scan.heads),
    skips: weights.ownNumbers(`${prefix}.D`, scan.heads),
  };
  const norm = scan.normGroups === null ? null : weights.vector(`${prefix}.norm.weight`, width);
  const output = weights.row(
    { name: `${prefix}.out_proj`, n: hiddenSize, bias: scan.hasProjectionBias },
    width,
    true,
  );
  const apply = (step: Step, h: Tensor): Tensor => {
    const { ops, inputs } = step;
    const [gates, brought, steps] = input.apply(step, h, [ownWidth, scanChannels(own), own.heads]);
    if (scan.factors) {
      const parts = [gates!, ...ops.split(brought!, [ownWidth, ofGroups, ofGroups]), steps!];
      for (const [index, part] of parts.entries()) ops.scale(part, scan.factors[index]!);
    }
    const convolved = ops.convolve(brought!, inputs, convolution);
    const [x, b, c] = ops.split(convolved, [ownWidth, ofGroups, ofGroups]);
    const read = ops.selectiveScan({ x: x!, b: b!, c: c!, steps: steps! }, inputs, rule);
    const gated = ops.gate(read, gates!, 'silu', 'f32');
    const all = ops.gatherColumns(gated, weights.share.widths(width));
    if (norm === null) return ops.cast(all, output.inputDType);
    return ops.rmsNorm(all, norm, normEps, output.inputDType, scan.normGroups!);
  };
  return productBlock({ inputDType: input.inputDType, inner: apply, output });
};

/** Of x, b and c: where there is one group, every rank has what is of it. */
function channelsOf({ heads, headDim, groups, stateDim }: ScanConfig): ChannelRanges {
  const [width, ofGroups] = [heads * headDim, groups * stateDim];
  return groups === 1 ? { shared: [width], whole: 2 * ofGroups } : { shared: [width, ofGroups, ofGroups] };
}

/** h -> gates; x, b and c; steps. */
function inputProjections(
  { config, weights }: LayerContext,
  prefix: string,
  scan: ScanConfig,
): ColumnParallelLinears {
  const { shared, whole = 0 } = channelsOf(scan);
  const width = scan.heads * scan.headDim;
  const rows = width + scanChannels(scan) + scan.heads;
  const part = (first: number, ranges: readonly number[] | null, n: number): Projection => {
    return {
      name: `${prefix}.in_proj`,
      n,
      bias: scan.hasProjectionBias,
      within: { rows, first },
      shared: ranges,
    };
  };
  const numShared = shared.reduce((sum, length) => sum + length, 0);
  const parts = [
    part(0, [width], width),
    part(width, shared, numShared),
    ...(whole > 0 ? [part(width + numShared, null, whole)] : []),
    part(rows - scan.heads, [scan.heads], scan.heads),
  ];
  return weights.columns(parts, config.hiddenSize);
}
