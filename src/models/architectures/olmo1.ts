// OLMo 1: layer norms without weights; some releases bound what queries, keys and values may be (Groeneveld et al., "OLMo: Accelerating
// the Science of Language Models", 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { layerNormWithoutWeight } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({ clip_qkv: z.number().positive().nullish() });

const attention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    clip: context.config.qkvClip,
    output: outputProjection(context, `${prefix}.o_proj`),
  });

export const olmo1: Architecture = {
  architectures: ['OlmoForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, ({ attention_bias }) => ({
      normEps: 1e-5,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      qkvClip: checkModelJson(file.path, file.json, ownFields).clip_qkv ?? null,
    })),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({ norm: layerNormWithoutWeight, attention }),
      norm: layerNormWithoutWeight,
    }),
};
