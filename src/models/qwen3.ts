// Qwen3: as Llama, with each head of queries and keys normalised before it is rotated.

import { attend, loadAttentionOutput, loadQkv, splitQkv } from './layers/attention.ts';
import { loadMlp } from './layers/mlp.ts';
import type { Layer } from './layers/step.ts';
import type { ModelConfig } from './model-config.ts';
import type { WeightReader } from './weights/weight-reader.ts';

export function qwen3Layer(weights: WeightReader, config: ModelConfig, layer: number): Layer {
  const { dtype } = weights;
  const { hiddenSize, rmsNormEps: eps, headDim, attentionBias } = config;
  const name = `model.layers.${layer}`;
  const attentionNorm = weights.vector(`${name}.input_layernorm.weight`, hiddenSize);
  const qkv = loadQkv(weights, `${name}.self_attn`, config, attentionBias);
  const queryNorm = weights.vector(`${name}.self_attn.q_norm.weight`, headDim);
  const keyNorm = weights.vector(`${name}.self_attn.k_norm.weight`, headDim);
  const output = loadAttentionOutput(weights, `${name}.self_attn`, config, attentionBias);
  const mlpNorm = weights.vector(`${name}.post_attention_layernorm.weight`, hiddenSize);
  const mlp = loadMlp(weights, `${name}.mlp`, config);

  return (x, step) => {
    const { ops } = step;
    const h = ops.rmsNorm(x, attentionNorm, eps, dtype);
    const [q, k, v] = splitQkv(ops, ops.linear(h, qkv), config);
    ops.qkNorm(q, queryNorm, eps);
    ops.qkNorm(k, keyNorm, eps);
    ops.addLinear(x, attend(step, [q, k, v], config, layer), output);

    mlp(ops, x, ops.rmsNorm(x, mlpNorm, eps, dtype));
  };
}
