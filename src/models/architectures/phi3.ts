// Phi-3 and Phi-4: as Llama, with queries, keys and values in one tensor, and gate and up in one; LongRoPE for long contexts
// (Abdin et al., 2024).

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, fusedQkv, outputProjection } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { fusedGatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

export const phi3: Architecture = {
  architectures: ['Phi3ForCausalLM'],
  readConfig: (file) =>
    readDecoderConfig(file, (fields) => ({
      slidingWindow: fields.sliding_window ?? null,
      normEps: fields.rms_norm_eps ?? 1e-5,
    })),
  load: (context) =>
    loadDecoder(context, {
      layer: preNormLayer({ attention: phi3Attention, feedForward: fusedGatedMlp() }),
    }),
};

const phi3Attention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: fusedQkv(context, `${prefix}.qkv_proj`),
    output: outputProjection(context, `${prefix}.o_proj`),
  });
