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
import { GPT_NAMES, gptFields, inUsualFields } from './gpt-fields.ts';

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

const ownFields = gptFields.extend({
  scale_attn_weights: z.boolean().nullish(),
  scale_attn_by_inverse_layer_idx: z.boolean().nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  return readDecoderConfig({ ...file, json: inUsualFields(own) }, () => ({
    normEps: own.layer_norm_epsilon ?? 1e-5,
    ...(own.scale_attn_weights === false ? { attentionScale: 1 } : {}),
    dividesScaleByLayer: own.scale_attn_by_inverse_layer_idx ?? false,
    qkvBias: true,
    attentionOutputBias: true,
    mlpBias: true,
    tieWordEmbeddings: true,
    ropeOf: () => null,
    tensorNames: { ...GPT_NAMES, positions: 'wpe' },
  }));
}
