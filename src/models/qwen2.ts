// Qwen 1.5 to 2.5: as Llama, with biases on queries, keys and values and nowhere else.

import { attend, loadAttentionOutput, loadQkv, splitQkv } from './layers/attention.ts';
import { loadMlp } from './layers/mlp.ts';
import type { Layer } from './layers/step.ts';
import type { ModelConfig } from './model-config.ts';
import type { WeightReader } from './weights/weight-reader.ts';

export function qwen2Layer(weights: WeightReader, config: ModelConfig, layer: number): Layer {
  const { dtype } = weights;
  const { hiddenSize, rmsNormEps: eps } = config;
  const name = `model.layers.${layer}`;
  const attentionNorm = weights.vector(`${name}.input_layernorm.weight`, hiddenSize);
  const qkv = loadQkv(weights, `${name}.self_attn`, config, true);
  const output = loadAttentionOutput(weights, `${name}.self_attn`, config);
  const mlpNorm = weights.vector(`${name}.post_attention_layernorm.weight`, hiddenSize);
  const mlp = loadMlp(weights, `${name}.mlp`, config);

  return (x, step) => {
    const { ops } = step;
    const h = ops.rmsNorm(x, attentionNorm, eps, dtype);
    const [q, k, v] = splitQkv(ops, ops.linear(h, qkv), config);
    ops.addLinear(x, attend(step, [q, k, v], config, layer), output);

    mlp(ops, x, ops.rmsNorm(x, mlpNorm, eps, dtype));
  };
}
