// Shapes of published models: what their config.json says of sizes.

const COMMON = {
  hidden_act: 'silu',
  torch_dtype: 'bfloat16',
  bos_token_id: 1,
  eos_token_id: 2,
  head_dim: 128,
};

export const QWEN3_06B = {
  ...COMMON,
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 151936,
  hidden_size: 1024,
  intermediate_size: 3072,
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  max_position_embeddings: 40960,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
  tie_word_embeddings: true,
};

export const LLAMA_8B = {
  ...COMMON,
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: 128256,
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-5,
  rope_theta: 500000,
  tie_word_embeddings: false,
};
