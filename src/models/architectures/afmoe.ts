// AFMoE, Arcee's Trinity: gates on what heads saw, each block between two norms, no positions in the layers without a window, and the
// experts of DeepSeek V3 under names of their own (Arcee AI, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { attentionOf, headNorms, outputProjection } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { expertsBesideShared } from './deepseek-experts.ts';
import { attentionInSandwich } from './gemma2.ts';

const size = z.int().positive();

const ownFields = z.object({
  num_experts: size,
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  num_shared_experts: z.int().nonnegative().nullish(),
  num_dense_layers: z.int().nonnegative().nullish(),
  route_scale: z.number().positive().nullish(),
  route_norm: z.boolean().nullish(),
  global_attn_every_n_layers: size.nullish(),
  mup_enabled: z.boolean().nullish(),
  // What all releases say.
  score_func: z.literal('sigmoid').nullish(),
  n_group: z.literal(1).nullish(),
  topk_group: z.literal(1).nullish(),
});

export const afmoe: Architecture = {
  architectures: ['AfmoeForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const config = readDecoderConfig(file, (fields) => ({
    normEps: fields.rms_norm_eps ?? 1e-5,
    headDim: fields.head_dim ?? 128,
    hasHeadNorms: true,
    slidingWindow: fields.sliding_window === undefined ? 1024 : fields.sliding_window,
    slides: (layer) => (layer + 1) % (own.global_attn_every_n_layers ?? 4) !== 0,
    ropeOf: ({ isSliding }, rope) => (isSliding ? rope : null),
    embeddingScale: own.mup_enabled ? Math.sqrt(fields.hidden_size) : 1,
  }));
  const experts = expectExperts(file.path, {
    count: own.num_experts,
    intermediateSize: own.moe_intermediate_size,
    routing: {
      topK: own.num_experts_per_tok,
      scores: 'sigmoid',
      isNormalized: own.route_norm ?? true,
      scale: own.route_scale ?? 1,
    },
    sharedIntermediateSize: own.moe_intermediate_size * (own.num_shared_experts ?? 2),
    layers: config.layerWindows.map((_, layer) => layer >= (own.num_dense_layers ?? 1)),
  });
  return { ...config, experts };
}

/** Gates have a tensor of their own. */
const attention: LoadBlock = (context, index, prefix) => {
  const { numHeads, numKvHeads, headDim, hiddenSize } = context.config;
  const projection = (name: string, heads: number) => ({ name: `${prefix}.${name}`, n: heads * headDim });
  const projections = [
    projection('q_proj', numHeads),
    projection('k_proj', numKvHeads),
    projection('v_proj', numKvHeads),
    projection('gate_proj', numHeads),
  ];
  return attentionOf(context, index, {
    qkv: context.weights.columns(projections, hiddenSize),
    hasGates: true,
    headNorms: headNorms(context, prefix),
    output: outputProjection(context, `${prefix}.o_proj`),
  });
};

const mixture: LoadBlock = (context, _index, prefix) => {
  const bias = context.weights.vector(`${prefix}.expert_bias`, context.config.experts!.count);
  return loadMixture(context, prefix, { router: `${prefix}.router.gate`, bias });
};

const layer: LoadLayer = (context, index, prefix) =>
  inOrder(
    attentionInSandwich(attention, rmsNorm)(context, index, prefix),
    residual({
      before: rmsNorm(context, `${prefix}.pre_mlp_layernorm`),
      block: expertsBesideShared(mixture)(context, index, `${prefix}.mlp`),
      after: rmsNorm(context, `${prefix}.post_mlp_layernorm`),
    }),
  );
