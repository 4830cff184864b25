// Names and shapes of the tensors that a published model of each architecture has: for the models that svc makes.

import type { ModelConfig } from './model-config.ts';
import type { TensorShape } from './weights/safetensors-writer.ts';

/** In the order in which a forward pass uses them. */
export function publishedTensors(config: ModelConfig): TensorShape[] {
  const { vocabSize, hiddenSize, numLayers, tieWordEmbeddings } = config;
  const tensors = [{ name: 'model.embed_tokens.weight', shape: [vocabSize, hiddenSize] }];
  for (let layer = 0; layer < numLayers; layer++) {
    tensors.push(...layerTensors(config, `model.layers.${layer}`));
  }
  tensors.push({ name: 'model.norm.weight', shape: [hiddenSize] });
  if (!tieWordEmbeddings) tensors.push({ name: 'lm_head.weight', shape: [vocabSize, hiddenSize] });
  return tensors;
}

function layerTensors(config: ModelConfig, layer: string): { name: string; shape: number[] }[] {
  const { architecture, hiddenSize, intermediateSize, numHeads, numKvHeads, headDim } = config;
  const { attentionBias, mlpBias } = config;
  const qkvBias = architecture === 'Qwen2ForCausalLM' || attentionBias;
  const vector = (name: string, length: number) => ({ name: `${layer}.${name}.weight`, shape: [length] });
  const linear = (name: string, n: number, k: number, bias: boolean) => [
    { name: `${layer}.${name}.weight`, shape: [n, k] },
    ...(bias ? [{ name: `${layer}.${name}.bias`, shape: [n] }] : []),
  ];
  const headNorms = [vector('self_attn.q_norm', headDim), vector('self_attn.k_norm', headDim)];
  return [
    vector('input_layernorm', hiddenSize),
    ...linear('self_attn.q_proj', numHeads * headDim, hiddenSize, qkvBias),
    ...linear('self_attn.k_proj', numKvHeads * headDim, hiddenSize, qkvBias),
    ...linear('self_attn.v_proj', numKvHeads * headDim, hiddenSize, qkvBias),
    ...(architecture === 'Qwen3ForCausalLM' ? headNorms : []),
    ...linear('self_attn.o_proj', hiddenSize, numHeads * headDim, attentionBias),
    vector('post_attention_layernorm', hiddenSize),
    ...linear('mlp.gate_proj', intermediateSize, hiddenSize, mlpBias),
    ...linear('mlp.up_proj', intermediateSize, hiddenSize, mlpBias),
    ...linear('mlp.down_proj', hiddenSize, intermediateSize, mlpBias),
  ];
}
