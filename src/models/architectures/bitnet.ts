// BitNet b1.58: as Llama, with norms of what goes into the last products of attention and feed-forward, for their inputs are quantised.
// Source: Ma et al., "BitNet b1.58 2B4T Technical Report", 2025.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { gatedMlpOf } from '../layers/mlp.ts';
import { rmsNormOfColumns } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

export const bitnet: Architecture = {
  architectures: ['BitNetForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, ({ hidden_act, rms_norm_eps, attention_bias }) => ({
      activation: hidden_act ?? 'relu2',
      normEps: rms_norm_eps ?? 1e-5,
      ropeTheta: 500_000,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
    })),
  load: (context) => loadDecoder(context, { layer: preNormLayer({ attention, feedForward }) }),
};

const attention: LoadBlock = (context, layer, prefix) => {
  const { numHeads, headDim } = context.config;
  return attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    innerNorm: rmsNormOfColumns(context, `${prefix}.attn_sub_norm`, numHeads * headDim),
    output: outputProjection(context, `${prefix}.o_proj`),
  });
};

const feedForward = gatedMlpOf({
  gate: 'gate_proj',
  up: 'up_proj',
  down: 'down_proj',
  innerNorm: 'ffn_sub_norm',
});
