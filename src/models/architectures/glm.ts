// GLM-4: as Llama, with neighbours in the first half of each head rotated against each other, and gate and up in one tensor;
// the releases of 2025 have a norm behind each block too (Team GLM, 2024).

import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadAttention } from '../layers/attention.ts';
import type { LoadLayer } from '../layers/layer.ts';
import { fusedGatedMlp } from '../layers/mlp.ts';
import { rmsNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { inOrder, residual } from '../layers/residual.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const glm: Architecture = {
  architectures: ['GlmForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: preNormLayer({ feedForward: mlp }) }),
};

export const glm4: Architecture = {
  architectures: ['Glm4ForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer: glm4Layer }),
};

function readConfig(file: ConfigFile): ModelConfig {
  return readDecoderConfig(file, (fields) => ({
    headDim: fields.head_dim ?? 128,
    normEps: fields.rms_norm_eps ?? 1.5625e-7,
    rotaryFactor: 0.5,
    ropeIsInterleaved: true,
    qkvBias: fields.attention_bias ?? true,
  }));
}

const mlp = fusedGatedMlp();

const glm4Layer: LoadLayer = (context, layer, prefix) =>
  inOrder(
    residual({
      before: rmsNorm(context, `${prefix}.input_layernorm`),
      block: loadAttention(context, layer, `${prefix}.self_attn`),
      after: rmsNorm(context, `${prefix}.post_self_attn_layernorm`),
    }),
    residual({
      before: rmsNorm(context, `${prefix}.post_attention_layernorm`),
      block: mlp(context, layer, `${prefix}.mlp`),
      after: rmsNorm(context, `${prefix}.post_mlp_layernorm`),
    }),
  );
