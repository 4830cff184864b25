// Hunyuan: as Qwen 3, with heads that are rotated before they are normalised; A13B with experts beside an MLP for every token
// (Tencent, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import { shortestDecimal } from '../../util/shortest-decimal.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { attentionOf, headNorms, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { loadMixture, SharedExpert } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const hunyuanDense: Architecture = {
  architectures: ['HunYuanDenseV1ForCausalLM'],
  readConfig: readHunyuan,
  load: (context) => loadDecoder(context, { layer: preNormLayer({ attention }) }),
};

export const hunyuanMoe: Architecture = {
  architectures: ['HunYuanMoEV1ForCausalLM'],
  readConfig: readWithExperts,
  load: (context) => loadDecoder(context, { layer: preNormLayer({ attention, feedForward }) }),
};

function readHunyuan(file: ConfigFile): ModelConfig {
  return readDecoderConfig(stretched(file), ({ rms_norm_eps, attention_bias }) => ({
    normEps: rms_norm_eps ?? 1e-5,
    qkvBias: attention_bias,
    attentionOutputBias: attention_bias,
    hasHeadNorms: true,
  }));
}

/** For all layers, or for each: then the same. */
const alike = (number: z.ZodInt) =>
  z.union([number, z.array(number).min(1)]).transform((given, context) => {
    const [first, ...others] = [given].flat();
    if (others.every((other) => other === first)) return first!;
    context.addIssue('must be the same in all layers');
    return z.NEVER;
  });

const size = z.int().positive();
const expertFields = z.object({
  num_experts: size,
  moe_topk: alike(size),
  moe_intermediate_size: alike(size).nullish(),
  num_shared_expert: alike(size).pipe(z.literal(1)).nullish(),
  /** Layers that share keys with others, which no release has. */
  use_cla: z.literal(false).nullish(),
});

function readWithExperts(file: ConfigFile): ModelConfig {
  const config = readHunyuan(file);
  const fields = checkModelJson(file.path, file.json, expertFields);
  const intermediateSize = fields.moe_intermediate_size ?? config.intermediateSize;
  const experts = expectExperts(file.path, {
    count: fields.num_experts,
    intermediateSize,
    routing: { topK: fields.moe_topk, scores: 'softmax', isNormalized: true },
    sharedIntermediateSize: intermediateSize,
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}

const feedForward: LoadBlock = (context, layer, prefix) => {
  const { intermediateSize } = context.config.experts!;
  const chosen = loadMixture(context, prefix, { router: `${prefix}.gate.wg` });
  const config = { ...context.config, intermediateSize };
  return new SharedExpert(chosen, gatedMlp({ ...context, config }, layer, `${prefix}.shared_mlp`));
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
