// Qwen3: as Llama, with each head of queries and keys normalised before it is rotated.

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFields, type DecoderTraits, readDecoderConfig } from '../model-config.ts';
import { qwenWindows } from './qwen2.ts';

export const qwen3: Architecture = {
  architectures: ['Qwen3ForCausalLM'],
  readConfig: (file) => readDecoderConfig(file, qwen3Traits),
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

export function qwen3Traits(fields: ConfigFields): DecoderTraits {
  return {
    ...qwenWindows(fields),
    // Whatever the width of the model.
    headDim: fields.head_dim ?? 128,
    hasHeadNorms: true,
    qkvBias: fields.attention_bias,
    attentionOutputBias: fields.attention_bias,
  };
}
