// OLMo 2: norms behind the blocks, none before them, and queries and keys normalised over all heads together
// (Team OLMo, 2025).

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, type QueryKeyNorm, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { readDecoderConfig } from '../model-config.ts';

export const olmo2: Architecture = {
  architectures: ['Olmo2ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => ({
      qkvBias: fields.attention_bias,
      attentionOutputBias: fields.attention_bias,
      normEps: fields.rms_norm_eps ?? 1e-5,
    })),
  load: (context) => loadDecoder(context, { layer: postNormLayer }),
};

const postNormLayer: LoadLayer = (context, layer, prefix) =>
  inOrder(
    residual({
      block: olmo2Attention(context, layer, `${prefix}.self_attn`),
      after: rmsNorm(context, `${prefix}.post_attention_layernorm`),
    }),
    residual({
      block: gatedMlp(context, layer, `${prefix}.mlp`),
      after: rmsNorm(context, `${prefix}.post_feedforward_layernorm`),
    }),
  );

const olmo2Attention: LoadBlock = (context, layer, prefix) => {
  const { numHeads, numKvHeads } = context.config;
  return attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    queryNorm: normOfAll(context, `${prefix}.q_norm`, numHeads),
    keyNorm: normOfAll(context, `${prefix}.k_norm`, numKvHeads),
    output: outputProjection(context, `${prefix}.o_proj`),
  });
};

function normOfAll({ config, weights }: LayerContext, name: string, heads: number): QueryKeyNorm {
  const weight = weights.vector(`${name}.weight`, heads * config.headDim);
  const widths = weights.share.widths(heads * config.headDim);
  return ({ ops }, x) => {
    const normed = ops.rmsNorm(ops.gatherColumns(x, widths), weight, config.normEps, 'f32');
    return ops.split(normed, widths)[ops.ranks.rank]!;
  };
}
