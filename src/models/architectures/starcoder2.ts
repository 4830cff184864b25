// StarCoder 2: layer norms, biases, a feed-forward without a gate, and a window (Lozhkov et al., 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({
  norm_epsilon: z.number().positive().nullish(),
  use_bias: z.boolean().nullish(),
});

export const starcoder2: Architecture = {
  architectures: ['Starcoder2ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => {
      const { norm_epsilon, use_bias } = checkModelJson(file.path, file.json, ownFields);
      const bias = use_bias ?? true;
      return {
        normEps: norm_epsilon ?? 1e-5,
        activation: fields.hidden_act ?? 'gelu_pytorch_tanh',
        qkvBias: bias,
        attentionOutputBias: bias,
        mlpBias: bias,
        slidingWindow: fields.sliding_window ?? null,
        tieWordEmbeddings: true,
      };
    }),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({
        norm: layerNorm,
        feedForward: plainMlp({ up: 'c_fc', down: 'c_proj' }),
      }),
      norm: layerNorm,
    }),
};
