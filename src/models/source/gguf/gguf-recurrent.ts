// Models with layers that keep a state of each sequence, as GGUF names them: linear attention, and short convolutions.

import type { GgufArchitecture } from './gguf-architecture.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { QWEN_SHARED_EXPERTS, qwenSharedExperts } from './gguf-mixtures.ts';

/** Both kinds of layers; a converter writes the rates of forgetting in the place of their logarithms. */
const HYBRID: Readonly<Record<string, string>> = {
  post_attention_norm: 'post_attention_layernorm',
  attn_qkv: 'linear_attn.in_proj_qkv',
  attn_gate: 'linear_attn.in_proj_z',
  ssm_conv1d: 'linear_attn.conv1d',
  ssm_a: 'linear_attn.rates',
  'ssm_dt.bias': 'linear_attn.dt_bias',
  ssm_norm: 'linear_attn.norm',
  ssm_out: 'linear_attn.out_proj',
};

function hybridFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const valueHeads = keys.need('ssm.time_step_rank');
  return {
    linear_conv_kernel_dim: keys.need('ssm.conv_kernel'),
    linear_key_head_dim: keys.need('ssm.state_size'),
    linear_value_head_dim: keys.need('ssm.inner_size') / valueHeads,
    linear_num_key_heads: keys.need('ssm.group_count'),
    linear_num_value_heads: valueHeads,
    full_attention_interval: keys.ofModel('full_attention_interval') ?? undefined,
    mtp_num_hidden_layers: keys.ofModel('nextn_predict_layers'),
  };
}

const qwen3next: GgufArchitecture = {
  name: () => 'Qwen3NextForCausalLM',
  fields: (keys) => ({ ...qwenSharedExperts(keys), ...hybridFields(keys) }),
  modules: {
    ...HYBRID,
    ...QWEN_SHARED_EXPERTS,
    // Older converters did not take it apart.
    ssm_in: 'linear_attn.in_proj_qkvz',
    ssm_ba: 'linear_attn.in_proj_ba',
  },
  hasNormsFrom0: true,
};

const QWEN35: Readonly<Record<string, string>> = {
  ...HYBRID,
  ssm_beta: 'linear_attn.in_proj_b',
  ssm_alpha: 'linear_attn.in_proj_a',
};

/** Converted so that the heads of keys take turns. */
const qwen35Fields = (keys: GgufKeys) => ({ ...hybridFields(keys), linear_value_heads_tiled: true });

const CONVOLUTIONS: Readonly<Record<string, string>> = {
  attn_norm: 'operator_norm',
  'shortconv.conv': 'conv.conv',
  'shortconv.in_proj': 'conv.in_proj',
  'shortconv.out_proj': 'conv.out_proj',
  attn_q_norm: 'self_attn.q_layernorm',
  attn_k_norm: 'self_attn.k_layernorm',
  attn_output: 'self_attn.out_proj',
  ffn_norm: 'ffn_norm',
  ffn_gate: 'feed_forward.w1',
  ffn_up: 'feed_forward.w3',
  ffn_down: 'feed_forward.w2',
};

const LFM2_MODEL: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  token_embd_norm: 'model.embedding_norm',
  output: 'lm_head',
};

function lfm2Fields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const attends = keys.ofLayers('attention.head_count_kv')?.map((heads) => heads > 0);
  return {
    norm_eps: keys.ofModel('attention.layer_norm_rms_epsilon') ?? undefined,
    conv_L_cache: keys.need('shortconv.l_cache'),
    conv_bias: keys.hasTensor(`blk.${attends?.indexOf(false)}.shortconv.conv.bias`),
    layer_types: attends?.map((does) => (does ? 'full_attention' : 'conv')),
    // The width is the adjusted one.
    block_auto_adjust_ff_dim: false,
  };
}

/** By `general.architecture`. */
export const GGUF_RECURRENT: Readonly<Record<string, GgufArchitecture>> = {
  qwen3next,
  qwen35: {
    name: () => 'Qwen3_5ForCausalLM',
    fields: qwen35Fields,
    modules: QWEN35,
    hasNormsFrom0: true,
  },
  qwen35moe: {
    name: () => 'Qwen3_5MoeForCausalLM',
    fields: (keys) => ({ ...qwenSharedExperts(keys), ...qwen35Fields(keys) }),
    modules: { ...QWEN35, ...QWEN_SHARED_EXPERTS },
    hasNormsFrom0: true,
  },
  lfm2: {
    name: () => 'Lfm2ForCausalLM',
    fields: lfm2Fields,
    modules: CONVOLUTIONS,
    modelModules: LFM2_MODEL,
  },
  lfm2moe: {
    name: () => 'Lfm2MoeForCausalLM',
    fields: (keys) => ({
      model_type: 'lfm2_moe',
      ...lfm2Fields(keys),
      num_experts: keys.ofModel('expert_count'),
      num_experts_per_tok: keys.ofModel('expert_used_count'),
      moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
      num_dense_layers: keys.ofModel('leading_dense_block_count') ?? undefined,
      norm_topk_prob: keys.flag('lfm2moe.expert_weights_norm') ?? undefined,
      routed_scaling_factor: keys.ofModel('expert_weights_scale') ?? undefined,
    }),
    modules: {
      ...CONVOLUTIONS,
      ffn_gate_inp: 'feed_forward.gate',
      ffn_gate_exps: 'feed_forward.experts.*.w1',
      ffn_up_exps: 'feed_forward.experts.*.w3',
      ffn_down_exps: 'feed_forward.experts.*.w2',
      'exp_probs_b.bias': 'feed_forward.expert_bias',
    },
    modelModules: LFM2_MODEL,
  },
};
