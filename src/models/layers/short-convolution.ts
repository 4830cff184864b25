// A gated short convolution in the place of attention: c * convolution(b * x), of three projections of the input.
// Source: Liquid AI, "LFM2 Technical Report", 2025.

import type { LoadBlock } from './layer.ts';
import { productBlock } from './product-block.ts';

/** Names: in_proj, whose rows are b, c and x; conv; out_proj. */
export const shortConvolution =
  (bias: boolean): LoadBlock =>
  (context, layer, prefix) => {
    const { config, weights, cacheLayerOf } = context;
    const { hiddenSize: n } = config;
    const widths = new Array<number>(3).fill(weights.share.of(n).count);
    const input = weights.columns([{ name: `${prefix}.in_proj`, n: 3 * n, bias, shared: [n, n, n] }], n);
    const how = {
      layer: cacheLayerOf(layer),
      first: 0,
      weight: weights.taps(`${prefix}.conv.weight`, { shared: [n] }, config.recurrent!.taps),
      bias: bias ? weights.ownNumbers(`${prefix}.conv.bias`, n) : null,
      activation: 'identity',
    } as const;
    const output = weights.row({ name: `${prefix}.out_proj`, n, bias }, n);
    return productBlock({
      inputDType: input.inputDType,
      inner: (step, h) => {
        const { ops, inputs } = step;
        const [b, c, x] = input.apply(step, h, widths);
        const convolved = ops.convolve(ops.gate(x!, b!, 'identity', 'f32'), inputs, how);
        return ops.gate(convolved, c!, 'identity', output.inputDType);
      },
      output,
    });
  };
