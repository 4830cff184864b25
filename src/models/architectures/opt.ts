// OPT: learned positions, of which the first two rows are no positions, layer norms, a feed-forward without a gate (Zhang et al., "OPT:
// Open Pre-trained Transformer Language Models", 2022).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

const ownFields = z.looseObject({
  hidden_size: z.int().positive(),
  ffn_dim: z.int().positive(),
  activation_function: z.string().nullish(),
  enable_bias: z.boolean().nullish(),
  // What all releases say but that of 350M.
  do_layer_norm_before: z.literal(true).nullish(),
  word_embed_proj_dim: z.int().positive().nullish(),
});

export const opt: Architecture = {
  architectures: ['OPTForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer, norm: layerNorm }),
};

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const narrow = z.looseObject({ word_embed_proj_dim: z.literal(own.hidden_size).nullish() });
  const bias = own.enable_bias ?? true;
  const json = { ...checkModelJson(file.path, own, narrow), intermediate_size: own.ffn_dim };
  return readDecoderConfig({ ...file, json }, () => ({
    normEps: 1e-5,
    activation: own.activation_function ?? 'relu',
    qkvBias: bias,
    attentionOutputBias: bias,
    mlpBias: bias,
    tieWordEmbeddings: true,
    ropeOf: () => null,
    tensorNames: {
      roots: ['model.decoder.', 'decoder.'],
      embedding: 'embed_tokens',
      positions: 'embed_positions',
      positionOffset: 2,
      layers: 'layers',
      finalNorm: 'final_layer_norm',
      heads: ['lm_head'],
    },
  }));
}

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: separateQkv(context, prefix),
    output: outputProjection(context, `${prefix}.out_proj`),
  });

const mlp = plainMlp({ up: 'fc1', down: 'fc2' });

const layer: LoadLayer = (context, index, prefix) =>
  inOrder(
    residual({
      before: layerNorm(context, `${prefix}.self_attn_layer_norm`),
      block: attention(context, index, `${prefix}.self_attn`),
    }),
    residual({
      before: layerNorm(context, `${prefix}.final_layer_norm`),
      block: mlp(context, index, prefix),
    }),
  );
