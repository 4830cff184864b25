// Llama 1 to 3.x: no windows; biases where the config asks for them.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

export const llama: Architecture = {
  architectures: ['LlamaForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, ({ attention_bias, mlp_bias }) => ({
      qkvBias: attention_bias,
      attentionOutputBias: attention_bias,
      mlpBias: mlp_bias,
    })),
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};
