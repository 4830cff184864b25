// AFM: as Llama, with a feed-forward without a gate (Arcee AI, 2025).

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { plainMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

export const arcee: Architecture = {
  architectures: ['ArceeForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, ({ hidden_act, rms_norm_eps, attention_bias, mlp_bias }) => ({
      normEps: rms_norm_eps ?? 1e-5,
      activation: hidden_act ?? 'relu2',
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      mlpBias: mlp_bias,
    })),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({ feedForward: plainMlp({ up: 'up_proj', down: 'down_proj' }) }),
    }),
};
