// The layer of Llama and its kin: attention, then an MLP, each after a norm of its own and added to the residual stream.
// What differs between them is in the config: biases, norms of heads, windows.

import type { ModelConfig } from '../model-config.ts';
import type { WeightReader } from '../weights/weight-reader.ts';
import { Attention } from './attention.ts';
import { Mlp } from './mlp.ts';
import type { Layer } from './step.ts';

export function preNormLayer(weights: WeightReader, config: ModelConfig, layer: number): Layer {
  const { hiddenSize, rmsNormEps: eps } = config;
  const name = `model.layers.${layer}`;
  const attentionNorm = weights.vector(`${name}.input_layernorm.weight`, hiddenSize);
  const attention = new Attention(weights, `${name}.self_attn`, config, layer);
  const mlpNorm = weights.vector(`${name}.post_attention_layernorm.weight`, hiddenSize);
  const mlp = new Mlp(weights, `${name}.mlp`, config);

  return (x, step) => {
    const { ops } = step;
    attention.apply(step, ops.rmsNorm(x, attentionNorm, eps, attention.inputDType), { addTo: x });
    mlp.apply(step, ops.rmsNorm(x, mlpNorm, eps, mlp.inputDType), { addTo: x });
  };
}
