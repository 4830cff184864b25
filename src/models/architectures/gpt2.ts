// GPT-2: learned positions, layer norms, a feed-forward without a gate (Radford et al., 2019). Its projections are published
// as [inputs, outputs].

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const gpt2: Architecture = {
  architectures: ['GPT2LMHeadModel'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: gpt2Layer, norm: layerNorm }),
};

const gpt2Layer: LoadLayer = (context, layer, prefix) =>
  inOrder(
    residual({
      before: layerNorm(context, `${prefix}.ln_1`),
      block: gpt2Attention(context, layer, `${prefix}.attn`),
    }),
    residual({
      before: layerNorm(context, `${prefix}.ln_2`),
      block: gpt2Mlp(context, layer, `${prefix}.mlp`),
    }),
  );

const gpt2Attention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: fusedQkv(context, `${prefix}.c_attn`, true),
    output: outputProjection(context, `${prefix}.c_proj`, true),
  });

const gpt2Mlp = plainMlp({ up: 'c_fc', down: 'c_proj', isTransposed: true });

const size = z.int().positive();
const ownFields = z.looseObject({
  n_embd: size,
  n_inner: size.nullish(),
  n_layer: size,
  n_head: size,
  n_positions: size,
  activation_function: z.string().nullish(),
  layer_norm_epsilon: z.number().positive().nullish(),
  scale_attn_weights: z.boolean().nullish(),
  scale_attn_by_inverse_layer_idx: z.boolean().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const json = {
    ...own,
    hidden_size: own.n_embd,
    intermediate_size: own.n_inner ?? 4 * own.n_embd,
    num_hidden_layers: own.n_layer,
    num_attention_heads: own.n_head,
    max_position_embeddings: own.n_positions,
    hidden_act: own.activation_function ?? 'gelu_new',
  };
  return readDecoderConfig({ ...file, json }, () => ({
    normEps: own.layer_norm_epsilon ?? 1e-5,
    ...(own.scale_attn_weights === false ? { attentionScale: 1 } : {}),
    dividesScaleByLayer: own.scale_attn_by_inverse_layer_idx ?? false,
    qkvBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    tieWordEmbeddings: true,
    ropeOf: () => null,
    tensorNames: {
      roots: ['transformer.', ''],
      embedding: 'wte',
      positions: 'wpe',
      layers: 'h',
      finalNorm: 'ln_f',
      heads: ['lm_head'],
    },
  }));
}
