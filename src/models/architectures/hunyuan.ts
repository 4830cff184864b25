// Hunyuan: as Qwen 3, with heads that are rotated before they are normalised (Tencent, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import { shortestDecimal } from '../../util/shortest-decimal.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, headNorms, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, readDecoderConfig } from '../model-config.ts';

export const hunyuanDense: Architecture = {
  architectures: ['HunYuanDenseV1ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(stretched(file), ({ rms_norm_eps, attention_bias }) => ({
      normEps: rms_norm_eps ?? 1e-5,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      hasHeadNorms: true,
    })),
  load: (context) => loadDecoder(context, { layer: preNormLayer({ attention }) }),
};

const alphaFields = z.looseObject({
  alpha: z.number().positive().nullish(),
  rope_theta: z.number().positive().nullish(),
});
const ropeFields = z.looseObject({
  hidden_size: z.int().positive(),
  num_attention_heads: z.int().positive(),
  head_dim: z.int().positive().nullish(),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: alphaFields.nullish(),
  rope_parameters: alphaFields.nullish(),
});

/** Where `alpha` stretches positions, for any length alike, a base of rotation that does the same. */
function stretched(file: ConfigFile): ConfigFile {
  const { rope_scaling, rope_parameters, ...json } = checkModelJson(file.path, file.json, ropeFields);
  const rope = rope_parameters ?? rope_scaling;
  if (!rope?.alpha) return file;
  const headDim = json.head_dim ?? json.hidden_size / json.num_attention_heads;
  const theta = rope.rope_theta ?? json.rope_theta ?? 10_000;
  // What GGUF files have of it.
  const base = shortestDecimal(theta * rope.alpha ** (headDim / (headDim - 2)));
  return { ...file, json: { ...json, rope_theta: base } };
}

const attention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    headNorms: headNorms(context, prefix, { query: 'query_layernorm', key: 'key_layernorm' }),
    rotatesFirst: true,
    output: outputProjection(context, `${prefix}.o_proj`),
  });
