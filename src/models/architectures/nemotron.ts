// Nemotron-4 and Minitron: layer norms around 1, and a feed-forward without a gate (NVIDIA, "Nemotron-4 15B Technical Report", 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNormAround1 } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({ norm_eps: z.number().positive().default(1e-5) });

export const nemotron: Architecture = {
  architectures: ['NemotronForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, ({ hidden_act, attention_bias, mlp_bias }) => ({
      normEps: checkModelJson(file.path, file.json, ownFields).norm_eps,
      activation: hidden_act ?? 'relu2',
      rotaryFactor: 0.5,
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      mlpBias: mlp_bias,
    })),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({
        norm: layerNormAround1,
        feedForward: plainMlp({ up: 'up_proj', down: 'down_proj' }),
      }),
      norm: layerNormAround1,
    }),
};
