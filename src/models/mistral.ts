// Mistral: as Llama, without biases; its layers see a window of the newest tokens where the config sets one.

import { attend, loadAttentionOutput, loadQkv, splitQkv } from './layers/attention.ts';
import { loadMlp } from './layers/mlp.ts';
import type { Layer } from './layers/step.ts';
import type { ModelConfig } from './model-config.ts';
import type { WeightReader } from './weights/weight-reader.ts';

export function mistralLayer(weights: WeightReader, config: ModelConfig, layer: number): Layer {
  const { dtype } = weights;
  const { hiddenSize, rmsNormEps: eps } = config;
  const name = `model.layers.${layer}`;
  const attentionNorm = weights.vector(`${name}.input_layernorm.weight`, hiddenSize);
  const qkv = loadQkv(weights, `${name}.self_attn`, config);
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
