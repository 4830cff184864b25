// LFM2: short convolutions in most layers, attention in the others; larger ones have experts, chosen by sigmoid and bias.
// Source: Liquid AI, "LFM2 Technical Report", 2025.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { gatedMlpOf } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { shortConvolution } from '../layers/short-convolution.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { readLayerTypes } from '../recurrent-layers.ts';
import { USUAL_NAMES } from '../tensor-names.ts';

export const lfm2: Architecture = {
  architectures: ['Lfm2ForCausalLM'],
  readConfig: (file) => readLfm2(file, adjustedWidth(file)),
  load: (context) => loadDecoder(context, { layer }),
};

export const lfm2Moe: Architecture = {
  architectures: ['Lfm2MoeForCausalLM'],
  readConfig: (file) => withExperts(file, readLfm2(file)),
  load: (context) => loadDecoder(context, { layer }),
};

const size = z.int().positive();
const flag = z.boolean().nullish();

const ownFields = z.looseObject({
  conv_L_cache: size.default(3),
  conv_bias: z.boolean().default(false),
  norm_eps: z.number().positive().default(1e-5),
  /** Older files call it so; where there are both, this one counts. */
  tie_embedding: flag,
  tie_word_embeddings: flag,
  full_attn_idxs: z.array(z.int().nonnegative()).nullish(),
});

/** @param intermediateSize where it is not as the file says it. */
function readLfm2(file: ConfigFile, intermediateSize?: number): ModelConfig {
  const fields = checkModelJson(file.path, file.json, ownFields);
  const { full_attn_idxs: attending, conv_L_cache: taps, conv_bias: convBias, ...json } = fields;
  const { layers, rest } = readLayerTypes(
    {
      ...file,
      json: {
        ...json,
        ...(intermediateSize && { intermediate_size: intermediateSize }),
        tie_word_embeddings: json.tie_embedding ?? json.tie_word_embeddings ?? true,
      },
    },
    { state: ['conv'], attention: ['full_attention'] },
    (index) => attending?.includes(index) === false,
  );
  const config = readDecoderConfig(rest, () => ({
    normEps: json.norm_eps,
    activation: 'silu',
    ropeTheta: 1_000_000,
    hasHeadNorms: true,
    tensorNames: { ...USUAL_NAMES, finalNorm: 'embedding_norm' },
  }));
  return { ...config, recurrent: { layers, taps, hasBias: convBias } };
}

const widthFields = z.object({
  intermediate_size: size.nullish(),
  block_ff_dim: size.nullish(),
  block_auto_adjust_ff_dim: z.boolean().default(true),
  block_ffn_dim_multiplier: z.number().positive().nullable().default(1),
  block_multiple_of: size.default(256),
});

/** Of feed-forwards: two thirds of what the file says, times a factor, up to a multiple. */
function adjustedWidth(file: ConfigFile): number | undefined {
  const fields = checkModelJson(file.path, file.json, widthFields);
  const published = fields.block_ff_dim ?? fields.intermediate_size;
  if (!published || !fields.block_auto_adjust_ff_dim) return published ?? undefined;
  const width = Math.floor((2 * published) / 3);
  const { block_ffn_dim_multiplier: factor, block_multiple_of: multiple } = fields;
  return factor === null ? width : Math.ceil(Math.floor(factor * width) / multiple) * multiple;
}

const expertFields = z.object({
  num_experts: size.default(32),
  num_experts_per_tok: size.default(4),
  moe_intermediate_size: size,
  num_dense_layers: z.int().nonnegative().default(2),
  norm_topk_prob: z.boolean().default(true),
  routed_scaling_factor: z.number().positive().default(1),
});

function withExperts(file: ConfigFile, config: ModelConfig): ModelConfig {
  const fields = checkModelJson(file.path, file.json, expertFields);
  const experts = expectExperts(file.path, {
    count: fields.num_experts,
    intermediateSize: fields.moe_intermediate_size,
    routing: {
      topK: fields.num_experts_per_tok,
      scores: 'sigmoid',
      isNormalized: fields.norm_topk_prob,
      scale: fields.routed_scaling_factor,
    },
    layers: config.layerWindows.map((_, index) => index >= fields.num_dense_layers),
  });
  return { ...config, experts };
}

const NAMES = { gate: 'w1', up: 'w3', down: 'w2' };

const layer: LoadLayer = (context, index, prefix) => {
  const { experts, recurrent } = context.config;
  const mixer = recurrent!.layers[index] ? convolution : attention;
  const feedForward = experts?.layers[index] ? mixture : gatedMlpOf(NAMES);
  return inOrder(
    residual({ before: rmsNorm(context, `${prefix}.operator_norm`), block: mixer(context, index, prefix) }),
    residual({
      before: rmsNorm(context, `${prefix}.ffn_norm`),
      block: feedForward(context, index, `${prefix}.feed_forward`),
    }),
  );
};

const convolution: LoadBlock = (context, index, prefix) =>
  shortConvolution(context.config.recurrent!.hasBias)(context, index, `${prefix}.conv`);

const attention: LoadBlock = (context, index, prefix) => {
  const { config, weights } = context;
  const norm = (name: string) => weights.vector(`${prefix}.self_attn.${name}.weight`, config.headDim);
  return attentionOf(context, index, {
    qkv: separateQkv(context, `${prefix}.self_attn`),
    headNorms: { query: norm('q_layernorm'), key: norm('k_layernorm'), eps: config.normEps },
    output: outputProjection(context, `${prefix}.self_attn.out_proj`),
  });
};

const mixture: LoadBlock = (context, _index, prefix) => {
  const bias = `${prefix}.expert_bias`;
  const { weights, config } = context;
  return loadMixture(context, prefix, {
    names: NAMES,
    bias: weights.hasVector(bias) ? weights.vector(bias, config.experts!.count) : null,
  });
};
