// ChatGLM 3 and the first releases of GLM-4: the model of `glm.ts` under names of its own, with queries, keys and values in one tensor
// (Team GLM, "ChatGLM", 2024).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { fusedGatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const chatGlm: Architecture = {
  architectures: ['ChatGLMModel', 'ChatGLMForConditionalGeneration'],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

const layer: LoadLayer = (context, index, prefix) =>
  inOrder(
    residual({
      before: rmsNorm(context, `${prefix}.input_layernorm`),
      block: attention(context, index, `${prefix}.self_attention`),
    }),
    residual({
      before: rmsNorm(context, `${prefix}.post_attention_layernorm`),
      block: mlp(context, index, `${prefix}.mlp`),
    }),
  );

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: fusedQkv(context, `${prefix}.query_key_value`),
    output: outputProjection(context, `${prefix}.dense`),
  });

const mlp = fusedGatedMlp('dense_h_to_4h', 'dense_4h_to_h');

const size = z.int().positive();
const flag = z.boolean().nullish();
const ownFields = z.looseObject({
  padded_vocab_size: size,
  ffn_hidden_size: size,
  num_layers: size,
  num_attention_heads: size,
  seq_length: size,
  kv_channels: size.nullish(),
  multi_query_attention: flag,
  multi_query_group_num: size.nullish(),
  layernorm_epsilon: z.number().positive().nullish(),
  rope_ratio: z.number().positive().nullish(),
  add_qkv_bias: flag,
  add_bias_linear: flag,
  rmsnorm: flag,
  post_layer_norm: flag,
  apply_residual_connection_post_layernorm: flag,
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  if (
    own.rmsnorm === false ||
    own.post_layer_norm === false ||
    own.apply_residual_connection_post_layernorm
  ) {
    throw new ModelLoadError(
      `${file.path}: rmsnorm and post_layer_norm must be true and apply_residual_connection_post_layernorm false: other forms of ` +
        `${file.architecture} are not supported`,
    );
  }
  const json = {
    ...own,
    vocab_size: own.padded_vocab_size,
    intermediate_size: own.ffn_hidden_size,
    num_hidden_layers: own.num_layers,
    num_key_value_heads: own.multi_query_attention
      ? (own.multi_query_group_num ?? 1)
      : own.num_attention_heads,
    head_dim: own.kv_channels,
    max_position_embeddings: own.seq_length,
    rope_theta: 10_000 * (own.rope_ratio ?? 1),
  };
  const bias = own.add_bias_linear ?? false;
  return readDecoderConfig({ ...file, json }, () => ({
    normEps: own.layernorm_epsilon ?? 1e-5,
    rotaryFactor: 0.5,
    ropeIsInterleaved: true,
    qkvBias: bias || (own.add_qkv_bias ?? false),
    attentionOutputBias: bias,
    mlpBias: bias,
    tensorNames: {
      roots: ['transformer.'],
      embedding: 'embedding.word_embeddings',
      layers: 'encoder.layers',
      finalNorm: 'encoder.final_layernorm',
      heads: ['transformer.output_layer'],
    },
  }));
}
