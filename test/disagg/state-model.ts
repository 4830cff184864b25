// Arguments of `svc serve` that make of the bundled model's shape one whose layers keep states, all but every other one.

const CONFIG = {
  architectures: ['Qwen3NextForCausalLM'],
  model_type: 'qwen3_next',
  full_attention_interval: 2,
  linear_conv_kernel_dim: 4,
  linear_key_head_dim: 32,
  linear_value_head_dim: 32,
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
  num_experts: 4,
  num_experts_per_tok: 2,
  moe_intermediate_size: 64,
  shared_expert_intermediate_size: 64,
  partial_rotary_factor: 0.25,
};

export const STATE_MODEL = ['--load-format', 'dummy', '--hf-overrides', JSON.stringify(CONFIG)] as const;
