// StableLM: layer norms, a part of each head is rotated; the largest has attention and feed-forward side by side after one norm, and
// normalises each head of queries and keys (Bellagente et al., "Stable LM 2 1.6B Technical Report", 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, layerNormOfHeads, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LayerContext, LoadBlock, LoadLayer } from '../layers/layer.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { afterOneNorm } from '../layers/residual.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({
  layer_norm_eps: z.number().positive().nullish(),
  use_qkv_bias: z.boolean().nullish(),
  qk_layernorm: z.boolean().nullish(),
  use_parallel_residual: z.boolean().nullish(),
});

export const stableLm: Architecture = {
  architectures: ['StableLmForCausalLM'],
  readConfig: (file) => {
    const own = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, () => ({
      normEps: own.layer_norm_eps ?? 1e-5,
      rotaryFactor: 0.25,
      qkvBias: own.use_qkv_bias,
      hasHeadNorms: own.qk_layernorm ?? false,
      hasParallelBlocks: own.use_parallel_residual ?? false,
    }));
  },
  load: (context) => loadDecoder(context, { layer, norm: layerNorm }),
};

const layer: LoadLayer = (context, index, prefix) =>
  context.config.hasParallelBlocks
    ? afterOneNorm(
        layerNorm(context, `${prefix}.input_layernorm`),
        attention(context, index, `${prefix}.self_attn`),
        gatedMlp(context, index, `${prefix}.mlp`),
      )
    : inOrderLayer(context, index, prefix);

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: separateQkv(context, prefix),
    ...(context.config.hasHeadNorms ? ownHeadNorms(context, prefix) : {}),
    output: outputProjection(context, `${prefix}.o_proj`),
  });

const inOrderLayer = preNormLayer({ norm: layerNorm, attention });

/** Each head has a weight of its own. */
function ownHeadNorms({ config, weights }: LayerContext, prefix: string) {
  const { numHeads, numKvHeads, headDim } = config;
  const load = (name: string, heads: number) =>
    layerNormOfHeads(config, weights.vectorOfEachHead(`${prefix}.${name}.norms`, heads, headDim));
  return { queryNorm: load('q_layernorm', numHeads), keyNorm: load('k_layernorm', numKvHeads) };
}
