// Mixtures of experts, as GGUF names them: all experts of a layer are one tensor, and so are their projections.

import type { GgufArchitecture } from './gguf-architecture.ts';
import type { GgufKeys } from './gguf-keys.ts';

/** More than any model has. */
const MOST_LAYERS = 10_000;

const QWEN_EXPERTS: Readonly<Record<string, string>> = {
  ffn_gate_inp: 'mlp.gate',
  ffn_gate_exps: 'mlp.experts.*.gate_proj',
  ffn_up_exps: 'mlp.experts.*.up_proj',
  ffn_down_exps: 'mlp.experts.*.down_proj',
};

export function layersOf(keys: GgufKeys): number[] {
  return Array.from({ length: Math.min(keys.numLayers, MOST_LAYERS) }, (_, layer) => layer);
}

function hasExperts(keys: GgufKeys, layer: number): boolean {
  return keys.hasTensor(`blk.${layer}.ffn_gate_exps.weight`);
}

function qwenExperts(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    mlp_only_layers: layersOf(keys).filter((layer) => !hasExperts(keys, layer)),
    num_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
  };
}

export const QWEN_SHARED_EXPERTS: Readonly<Record<string, string>> = {
  ...QWEN_EXPERTS,
  ffn_gate_inp_shexp: 'mlp.shared_expert_gate',
  ffn_gate_shexp: 'mlp.shared_expert.gate_proj',
  ffn_up_shexp: 'mlp.shared_expert.up_proj',
  ffn_down_shexp: 'mlp.shared_expert.down_proj',
};

export function qwenSharedExperts(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    ...qwenExperts(keys),
    shared_expert_intermediate_size: keys.ofModel('expert_shared_feed_forward_length'),
  };
}

const gptOss: GgufArchitecture = {
  name: () => 'GptOssForCausalLM',
  fields: (keys) => ({
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
  }),
  yarn: () => ({ truncate: false }),
  modules: {
    post_attention_norm: 'post_attention_layernorm',
    'attn_sinks.weight': 'self_attn.sinks',
    ffn_gate_inp: 'mlp.router',
    ffn_gate_exps: 'mlp.experts.*.gate_proj',
    ffn_up_exps: 'mlp.experts.*.up_proj',
    ffn_down_exps: 'mlp.experts.*.down_proj',
  },
};

/** By its number in `expert_gating_func`; others choose by the softmax. */
const SIGMOID = 2;
/** What `yarn_log_multiplier` is a multiple of. */
const LOG_MULTIPLIER = 0.1;

/** Experts from some layer on, beside those that compute every token. */
export function groupedExperts(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    n_routed_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
    n_shared_experts: keys.ofModel('expert_shared_count'),
    first_k_dense_replace: keys.ofModel('leading_dense_block_count'),
    n_group: keys.ofModel('expert_group_count') ?? 1,
    topk_group: keys.ofModel('expert_group_used_count') ?? 1,
    norm_topk_prob: keys.flag(`${keys.architecture}.expert_weights_norm`),
    routed_scaling_factor: keys.ofModel('expert_weights_scale'),
  };
}

const GROUPED_EXPERTS: Readonly<Record<string, string>> = {
  ...QWEN_EXPERTS,
  'exp_probs_b.bias': 'mlp.gate.e_score_correction_bias',
  ffn_gate_shexp: 'mlp.shared_experts.gate_proj',
  ffn_up_shexp: 'mlp.shared_experts.up_proj',
  ffn_down_shexp: 'mlp.shared_experts.down_proj',
};

const deepseek: GgufArchitecture = {
  name: (keys) =>
    keys.ofModel('expert_gating_func') === SIGMOID ? 'DeepseekV3ForCausalLM' : 'DeepseekV2ForCausalLM',
  fields: (keys) => {
    const ropeDim = keys.need('rope.dimension_count');
    // Where keys and values are made of the latent on the fly, a key's own length is that of the latent.
    const keyDim = keys.ofModel('attention.key_length_mla') ?? keys.need('attention.key_length');
    return {
      // Each head has its own keys and values, although the cache has one for all.
      num_key_value_heads: keys.need('attention.head_count'),
      kv_lora_rank: keys.need('attention.kv_lora_rank'),
      q_lora_rank: keys.ofModel('attention.q_lora_rank'),
      qk_rope_head_dim: ropeDim,
      qk_nope_head_dim: keyDim - ropeDim,
      v_head_dim: keys.ofModel('attention.value_length_mla') ?? keys.need('attention.value_length'),
      ...groupedExperts(keys),
    };
  },
  yarn: (keys) => {
    const multiplier = keys.ofModel('rope.scaling.yarn_log_multiplier');
    if (multiplier === null) return {};
    const scale = multiplier / LOG_MULTIPLIER;
    return { mscale: scale, mscale_all_dim: scale };
  },
  // What is rotated of it.
  headDim: (keys) => keys.need('rope.dimension_count'),
  modules: {
    ...GROUPED_EXPERTS,
    attn_q_a: 'self_attn.q_a_proj',
    attn_q_a_norm: 'self_attn.q_a_layernorm',
    attn_q_b: 'self_attn.q_b_proj',
    attn_kv_a_mqa: 'self_attn.kv_a_proj_with_mqa',
    attn_kv_a_norm: 'self_attn.kv_a_layernorm',
    attn_kv_b: 'self_attn.kv_b_proj',
    attn_k_b: 'self_attn.kv_b_proj.*.key',
    attn_v_b: 'self_attn.kv_b_proj.*.value',
  },
};

/** Mistral Small 4, all experts of a layer in two tensors as the original has them. */
const mistral4: GgufArchitecture = {
  ...deepseek,
  name: () => 'Mistral4ForCausalLM',
  yarn: (keys) => ({
    ...deepseek.yarn!(keys),
    llama_4_scaling_beta: keys.ofModel('attention.temperature_scale'),
  }),
  modules: {
    ...deepseek.modules,
    'ffn_gate_up_exps.weight': 'mlp.experts.gate_up_proj',
    'ffn_down_exps.weight': 'mlp.experts.down_proj',
  },
};

const qwen3moe: GgufArchitecture = {
  name: () => 'Qwen3MoeForCausalLM',
  fields: (keys) => ({ ...qwenExperts(keys), norm_topk_prob: true }),
  modules: QWEN_EXPERTS,
};

const glm4Moe: GgufArchitecture = {
  name: () => 'Glm4MoeForCausalLM',
  fields: (keys) => ({
    ...groupedExperts(keys),
    num_nextn_predict_layers: keys.ofModel('nextn_predict_layers'),
    use_qk_norm: keys.hasTensor('blk.0.attn_q_norm.weight'),
  }),
  modules: { post_attention_norm: 'post_attention_layernorm', ...GROUPED_EXPERTS },
};

export function graniteFactors(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    embedding_multiplier: keys.ofModel('embedding_scale'),
    attention_multiplier: keys.ofModel('attention.scale'),
    residual_multiplier: keys.ofModel('residual_scale'),
    logits_scaling: keys.ofModel('logit_scale'),
  };
}

export const GRANITE_EXPERTS: Readonly<Record<string, string>> = {
  ffn_gate_inp: 'block_sparse_moe.router.layer',
  ffn_gate_exps: 'block_sparse_moe.experts.*.gate_proj',
  ffn_up_exps: 'block_sparse_moe.experts.*.up_proj',
  ffn_down_exps: 'block_sparse_moe.experts.*.down_proj',
  ffn_gate_shexp: 'shared_mlp.gate_proj',
  ffn_up_shexp: 'shared_mlp.up_proj',
  ffn_down_shexp: 'shared_mlp.down_proj',
};

export function graniteExperts(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    ...graniteFactors(keys),
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    shared_intermediate_size: keys.ofModel('expert_shared_feed_forward_length'),
  };
}

const graniteMoe: GgufArchitecture = {
  name: () => 'GraniteMoeForCausalLM',
  fields: graniteExperts,
  modules: GRANITE_EXPERTS,
  hasPairedHeads: true,
};

export function ernieBias(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return { use_bias: keys.hasTensor('blk.0.attn_q.bias') };
}

const ernieMoe: GgufArchitecture = {
  name: () => 'Ernie4_5_MoeForCausalLM',
  fields: (keys) => ({
    ...ernieBias(keys),
    moe_num_experts: keys.ofModel('expert_count'),
    moe_k: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
    moe_num_shared_experts: keys.ofModel('expert_shared_count'),
    moe_layer_start_index: keys.ofModel('leading_dense_block_count'),
    moe_layer_end_index: layersOf(keys).findLast((layer) => hasExperts(keys, layer)),
    moe_layer_interval: keys.ofModel('interleave_moe_layer_step'),
  }),
  modules: GROUPED_EXPERTS,
};

export const HUNYUAN_NORMS: Readonly<Record<string, string>> = {
  attn_q_norm: 'self_attn.query_layernorm',
  attn_k_norm: 'self_attn.key_layernorm',
};

const hunyuanMoe: GgufArchitecture = {
  name: () => 'HunYuanMoEV1ForCausalLM',
  fields: (keys) => ({
    num_experts: keys.ofModel('expert_count'),
    moe_topk: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
    num_shared_expert: keys.ofModel('expert_shared_count'),
  }),
  modules: {
    ...QWEN_EXPERTS,
    ...HUNYUAN_NORMS,
    ffn_gate_inp: 'mlp.gate.wg',
    ffn_gate_shexp: 'mlp.shared_mlp.gate_proj',
    ffn_up_shexp: 'mlp.shared_mlp.up_proj',
    ffn_down_shexp: 'mlp.shared_mlp.down_proj',
  },
};

/** Of the releases of Llama 4 the one whose heads are not normalised. */
const MAVERICK_EXPERTS = 128;

const llama4: GgufArchitecture = {
  name: () => 'Llama4ForCausalLM',
  fields: (keys) => ({
    intermediate_size: keys.ofModel('expert_feed_forward_length'),
    intermediate_size_mlp: keys.ofModel('feed_forward_length'),
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    interleave_moe_layer_step: keys.ofModel('interleave_moe_layer_step'),
    // Files do not say so.
    use_qk_norm: keys.ofModel('expert_count') !== MAVERICK_EXPERTS,
  }),
  modules: {
    ffn_gate: 'feed_forward.gate_proj',
    ffn_up: 'feed_forward.up_proj',
    ffn_down: 'feed_forward.down_proj',
    ffn_gate_inp: 'feed_forward.router',
    ffn_gate_exps: 'feed_forward.experts.*.gate_proj',
    ffn_up_exps: 'feed_forward.experts.*.up_proj',
    ffn_down_exps: 'feed_forward.experts.*.down_proj',
    ffn_gate_shexp: 'feed_forward.shared_expert.gate_proj',
    ffn_up_shexp: 'feed_forward.shared_expert.up_proj',
    ffn_down_shexp: 'feed_forward.shared_expert.down_proj',
  },
};

const minimaxM2: GgufArchitecture = {
  name: () => 'MiniMaxM2ForCausalLM',
  fields: (keys) => ({
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    intermediate_size: keys.ofModel('expert_feed_forward_length'),
  }),
  modules: {
    ffn_gate_inp: 'block_sparse_moe.gate',
    'exp_probs_b.bias': 'block_sparse_moe.e_score_correction_bias',
    ffn_gate_exps: 'block_sparse_moe.experts.*.w1',
    ffn_up_exps: 'block_sparse_moe.experts.*.w3',
    ffn_down_exps: 'block_sparse_moe.experts.*.w2',
  },
};

const phimoe: GgufArchitecture = {
  name: () => 'PhiMoEForCausalLM',
  fields: (keys) => ({
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    lm_head_bias: keys.hasTensor('output.bias'),
  }),
  modules: {
    ffn_gate_inp: 'block_sparse_moe.gate',
    ffn_gate_exps: 'block_sparse_moe.experts.*.w1',
    ffn_up_exps: 'block_sparse_moe.experts.*.w3',
    ffn_down_exps: 'block_sparse_moe.experts.*.w2',
  },
};

const afmoe: GgufArchitecture = {
  name: () => 'AfmoeForCausalLM',
  fields: (keys) => ({
    num_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
    num_shared_experts: keys.ofModel('expert_shared_count'),
    num_dense_layers: keys.ofModel('leading_dense_block_count'),
    route_norm: keys.flag(`${keys.architecture}.expert_weights_norm`),
    route_scale: keys.ofModel('expert_weights_scale'),
    layer_types: keys.layerTypes,
    // Files do not say so: of all models that they are of it is true.
    mup_enabled: true,
  }),
  modules: {
    ...GROUPED_EXPERTS,
    attn_gate: 'self_attn.gate_proj',
    post_attention_norm: 'post_attention_layernorm',
    ffn_norm: 'pre_mlp_layernorm',
    post_ffw_norm: 'post_mlp_layernorm',
    ffn_gate_inp: 'mlp.router.gate',
    'exp_probs_b.bias': 'mlp.expert_bias',
  },
};

/** By `general.architecture`. */
export const GGUF_MIXTURES: Readonly<Record<string, GgufArchitecture>> = {
  qwen2moe: {
    name: () => 'Qwen2MoeForCausalLM',
    fields: (keys) => ({ ...qwenSharedExperts(keys), norm_topk_prob: false }),
    modules: QWEN_SHARED_EXPERTS,
  },
  qwen3moe,
  qwen3vlmoe: qwen3moe,
  'gpt-oss': gptOss,
  deepseek2: deepseek,
  mistral4,
  granitemoe: graniteMoe,
  'hunyuan-moe': hunyuanMoe,
  olmoe: {
    name: () => 'OlmoeForCausalLM',
    fields: (keys) => ({
      num_experts: keys.ofModel('expert_count'),
      num_experts_per_tok: keys.ofModel('expert_used_count'),
    }),
    modules: QWEN_EXPERTS,
  },
  'ernie4_5-moe': ernieMoe,
  dots1: { name: () => 'Dots1ForCausalLM', fields: groupedExperts, modules: GROUPED_EXPERTS },
  glm4moe: glm4Moe,
  'minimax-m2': minimaxM2,
  afmoe,
  phimoe,
  llama4,
};
