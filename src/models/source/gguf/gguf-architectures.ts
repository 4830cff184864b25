// How GGUF names what svc knows: for each architecture its name and fields in config.json, and its tensors. The original's checkpoints
// and config.json are the common language; to add an architecture is to add its line here.

import type { GgufKeys } from './gguf-keys.ts';

export interface GgufArchitecture {
  /** In config.json. */
  readonly name: (keys: GgufKeys) => string;
  /** Fields of config.json beside those that all have. */
  readonly fields?: (keys: GgufKeys) => Readonly<Record<string, unknown>>;
  /** What yarn says beside what all have in `rope_scaling`. */
  readonly yarn?: (keys: GgufKeys) => Readonly<Record<string, unknown>>;
  /** Numbers of a head, where `attention.key_length` and `attention.value_length` do not say them. */
  readonly headDim?: (keys: GgufKeys) => number;
  /**
   * Modules of a layer that are named in another way than in LAYER_MODULES, or not there: GGUF's name to the original's. `*` stands for
   * the expert, or the head, of whose matrices GGUF makes one tensor. A name that ends in .weight or .bias is that of one tensor.
   */
  readonly modules?: Readonly<Record<string, string>>;
  /** Where names differ from MODEL_MODULES, and what the names of layers begin with in the place of LAYERS. */
  readonly modelModules?: Readonly<Record<string, string>>;
  readonly layers?: string;
  /** Converted so that matrices, which the original publishes as [inputs, outputs], are [outputs, inputs]. */
  readonly hasTurnedMatrices?: boolean;
  /** Converted so that weights of norms, which the original publishes as what they differ from 1, are whole. */
  readonly hasNormsFrom0?: boolean;
  /** Converted so that the two halves of each head of queries and keys take turns. */
  readonly hasPairedHeads?: boolean;
  /** Whether files may have queries, keys and values, which the original publishes apart, in one tensor `attn_qkv`. */
  readonly joinsQkv?: boolean;
}

/** Modules outside the layers. */
export const MODEL_MODULES: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
};

export const LAYERS = 'model.layers';

export const LAYER_MODULES: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};

/** Modules whose heads have halves that take turns. */
export const PAIRED_MODULES: readonly string[] = ['attn_q', 'attn_k'];

/** Numbers that models compute their positions from, and no weights. */
export const ROPE_TENSORS: readonly string[] = [
  'rope_freqs.weight',
  'rope_factors_long.weight',
  'rope_factors_short.weight',
];

/** Norms before and behind both blocks. */
const SANDWICH: Readonly<Record<string, string>> = {
  post_attention_norm: 'post_attention_layernorm',
  ffn_norm: 'pre_feedforward_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
};

/** Norms behind both blocks, and before none. */
const NORMS_BEHIND: Readonly<Record<string, string>> = {
  post_attention_norm: 'post_attention_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
};

const llama: GgufArchitecture = {
  // Mistral and Mixtral are converted as Llama.
  name: (keys) => {
    if (keys.ofModel('expert_count')) return 'MixtralForCausalLM';
    return keys.slidingWindow === null ? 'LlamaForCausalLM' : 'MistralForCausalLM';
  },
  fields: (keys) => ({
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
  }),
  modules: {
    ffn_gate_inp: 'block_sparse_moe.gate',
    ffn_gate_exps: 'block_sparse_moe.experts.*.w1',
    ffn_up_exps: 'block_sparse_moe.experts.*.w3',
    ffn_down_exps: 'block_sparse_moe.experts.*.w2',
  },
  hasPairedHeads: true,
};

/** Layers of the largest releases, whose scores are scaled by the width of the model; of the others by that of a head. */
const LARGEST_GEMMA = { gemma2: 46, gemma3: 62 } as const;

function gemmaScores(keys: GgufKeys, largest: number): Readonly<Record<string, unknown>> {
  const headDim = keys.ofModel('attention.key_length');
  const width = keys.need('embedding_length') / keys.need('attention.head_count');
  return { query_pre_attn_scalar: keys.need('block_count') === largest ? width : headDim };
}

/** More than any model has. */
const MOST_LAYERS = 10_000;

const QWEN_EXPERTS: Readonly<Record<string, string>> = {
  ffn_gate_inp: 'mlp.gate',
  ffn_gate_exps: 'mlp.experts.*.gate_proj',
  ffn_up_exps: 'mlp.experts.*.up_proj',
  ffn_down_exps: 'mlp.experts.*.down_proj',
};

function layersOf(keys: GgufKeys): number[] {
  return Array.from({ length: Math.min(keys.need('block_count'), MOST_LAYERS) }, (_, layer) => layer);
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
function groupedExperts(keys: GgufKeys): Readonly<Record<string, unknown>> {
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

const neox: GgufArchitecture = {
  name: () => 'GPTNeoXForCausalLM',
  fields: (keys) => ({
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    rotary_pct:
      (keys.need('rope.dimension_count') * keys.need('attention.head_count')) / keys.need('embedding_length'),
    rotary_emb_base: keys.ofModel('rope.freq_base'),
    attention_bias: keys.hasTensor('blk.0.attn_qkv.bias'),
    use_parallel_residual: keys.flag('gptneox.use_parallel_residual'),
  }),
  layers: 'gpt_neox.layers',
  modelModules: {
    token_embd: 'gpt_neox.embed_in',
    output_norm: 'gpt_neox.final_layer_norm',
    output: 'embed_out',
  },
  modules: {
    // The rows of the original's query_key_value in another order: all queries, all keys, all values.
    attn_qkv: 'attention.qkv',
    attn_output: 'attention.dense',
    ffn_up: 'mlp.dense_h_to_4h',
    ffn_down: 'mlp.dense_4h_to_h',
  },
};

const gpt2: GgufArchitecture = {
  name: () => 'GPT2LMHeadModel',
  fields: (keys) => ({
    n_embd: keys.need('embedding_length'),
    n_inner: keys.need('feed_forward_length'),
    n_layer: keys.need('block_count'),
    n_head: keys.need('attention.head_count'),
    n_positions: keys.need('context_length'),
    layer_norm_epsilon: keys.ofModel('attention.layer_norm_epsilon'),
  }),
  layers: 'h',
  modelModules: { token_embd: 'wte', position_embd: 'wpe', output_norm: 'ln_f', output: 'lm_head' },
  modules: {
    attn_norm: 'ln_1',
    attn_qkv: 'attn.c_attn',
    attn_output: 'attn.c_proj',
    ffn_norm: 'ln_2',
    ffn_up: 'mlp.c_fc',
    ffn_down: 'mlp.c_proj',
  },
  hasTurnedMatrices: true,
};

const glmFeedForward: Readonly<Record<string, string>> = { ffn_up: 'mlp.gate_up_proj' };

/** GLM-4 of 2024, whose first releases were called ChatGLM and had queries, keys and values in one tensor. */
const chatglm: GgufArchitecture = {
  name: () => 'GlmForCausalLM',
  fields: (keys) => ({
    attention_bias: keys.hasTensor('blk.0.attn_qkv.bias') || keys.hasTensor('blk.0.attn_q.bias'),
  }),
  modules: glmFeedForward,
  joinsQkv: true,
};

const cohere = (name: string): GgufArchitecture => ({
  name: () => name,
  fields: (keys) => ({
    logit_scale: keys.ofModel('logit_scale'),
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
  }),
});

const qwen3moe: GgufArchitecture = {
  name: () => 'Qwen3MoeForCausalLM',
  fields: (keys) => ({ ...qwenExperts(keys), norm_topk_prob: true }),
  modules: QWEN_EXPERTS,
};

const glm4Moe: GgufArchitecture = {
  name: () => 'Glm4MoeForCausalLM',
  fields: (keys) => {
    const drafts = keys.ofModel('nextn_predict_layers') ?? 0;
    return {
      ...groupedExperts(keys),
      // Blocks that guess tokens ahead are behind the layers.
      num_hidden_layers: keys.need('block_count') - drafts,
      num_nextn_predict_layers: drafts,
      use_qk_norm: keys.hasTensor('blk.0.attn_q_norm.weight'),
    };
  },
  modules: { post_attention_norm: 'post_attention_layernorm', ...GROUPED_EXPERTS },
};

function graniteFactors(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    embedding_multiplier: keys.ofModel('embedding_scale'),
    attention_multiplier: keys.ofModel('attention.scale'),
    residual_multiplier: keys.ofModel('residual_scale'),
    logits_scaling: keys.ofModel('logit_scale'),
  };
}

const graniteMoe: GgufArchitecture = {
  name: () => 'GraniteMoeForCausalLM',
  fields: (keys) => ({
    ...graniteFactors(keys),
    num_local_experts: keys.ofModel('expert_count'),
    num_experts_per_tok: keys.ofModel('expert_used_count'),
    shared_intermediate_size: keys.ofModel('expert_shared_feed_forward_length'),
  }),
  modules: {
    ffn_gate_inp: 'block_sparse_moe.router.layer',
    ffn_gate_exps: 'block_sparse_moe.experts.*.gate_proj',
    ffn_up_exps: 'block_sparse_moe.experts.*.up_proj',
    ffn_down_exps: 'block_sparse_moe.experts.*.down_proj',
    ffn_gate_shexp: 'shared_mlp.gate_proj',
    ffn_up_shexp: 'shared_mlp.up_proj',
    ffn_down_shexp: 'shared_mlp.down_proj',
  },
  hasPairedHeads: true,
};

function ernieBias(keys: GgufKeys): Readonly<Record<string, unknown>> {
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

/** By `general.architecture`. */
export const GGUF_ARCHITECTURES: Readonly<Record<string, GgufArchitecture>> = {
  llama,
  qwen2: { name: () => 'Qwen2ForCausalLM' },
  qwen3: { name: () => 'Qwen3ForCausalLM' },
  // The part that reads text; what sees images is a file of its own.
  qwen2vl: { name: () => 'Qwen2ForCausalLM' },
  qwen3vl: { name: () => 'Qwen3ForCausalLM' },
  qwen2moe: {
    name: () => 'Qwen2MoeForCausalLM',
    fields: (keys) => ({
      ...qwenExperts(keys),
      norm_topk_prob: false,
      shared_expert_intermediate_size: keys.ofModel('expert_shared_feed_forward_length'),
    }),
    modules: {
      ...QWEN_EXPERTS,
      ffn_gate_inp_shexp: 'mlp.shared_expert_gate',
      ffn_gate_shexp: 'mlp.shared_expert.gate_proj',
      ffn_up_shexp: 'mlp.shared_expert.up_proj',
      ffn_down_shexp: 'mlp.shared_expert.down_proj',
    },
  },
  qwen3moe,
  qwen3vlmoe: qwen3moe,
  gemma: { name: () => 'GemmaForCausalLM', hasNormsFrom0: true },
  gemma2: {
    name: () => 'Gemma2ForCausalLM',
    fields: (keys) => ({
      ...gemmaScores(keys, LARGEST_GEMMA.gemma2),
      attn_logit_softcapping: keys.ofModel('attn_logit_softcapping') ?? undefined,
      final_logit_softcapping: keys.ofModel('final_logit_softcapping') ?? undefined,
    }),
    modules: SANDWICH,
    hasNormsFrom0: true,
  },
  gemma3: {
    name: () => 'Gemma3ForCausalLM',
    fields: (keys) => ({
      ...gemmaScores(keys, LARGEST_GEMMA.gemma3),
      rope_theta: keys.ofModel('rope.freq_base') ?? 1_000_000,
      rope_local_base_freq: keys.ofModel('rope.freq_base_swa') ?? 10_000,
    }),
    modules: SANDWICH,
    hasNormsFrom0: true,
  },
  phi3: {
    name: () => 'Phi3ForCausalLM',
    modules: { attn_qkv: 'self_attn.qkv_proj', ffn_up: 'mlp.gate_up_proj' },
  },
  granite: { name: () => 'GraniteForCausalLM', fields: graniteFactors, hasPairedHeads: true },
  granitemoe: graniteMoe,
  smollm3: { name: () => 'SmolLM3ForCausalLM', hasPairedHeads: true },
  olmo2: {
    name: (keys) => (keys.slidingWindow === null ? 'Olmo2ForCausalLM' : 'Olmo3ForCausalLM'),
    fields: (keys) => ({ layer_types: keys.layerTypes }),
    modules: NORMS_BEHIND,
  },
  olmoe: {
    name: () => 'OlmoeForCausalLM',
    fields: (keys) => ({
      num_experts: keys.ofModel('expert_count'),
      num_experts_per_tok: keys.ofModel('expert_used_count'),
    }),
    modules: QWEN_EXPERTS,
  },
  exaone4: {
    name: () => 'Exaone4ForCausalLM',
    fields: (keys) => ({ layer_types: keys.layerTypes }),
    modules: NORMS_BEHIND,
  },
  seed_oss: {
    name: () => 'SeedOssForCausalLM',
    modules: { post_attention_norm: 'post_attention_layernorm' },
  },
  ernie4_5: { name: () => 'Ernie4_5ForCausalLM', fields: ernieBias },
  'ernie4_5-moe': ernieMoe,
  dots1: { name: () => 'Dots1ForCausalLM', fields: groupedExperts, modules: GROUPED_EXPERTS },
  'command-r': cohere('CohereForCausalLM'),
  cohere2: cohere('Cohere2ForCausalLM'),
  starcoder2: {
    name: () => 'Starcoder2ForCausalLM',
    fields: (keys) => ({
      norm_epsilon: keys.ofModel('attention.layer_norm_epsilon'),
      use_bias: keys.hasTensor('blk.0.attn_q.bias'),
      hidden_act: 'gelu_pytorch_tanh',
    }),
    modules: { ffn_up: 'mlp.c_fc', ffn_down: 'mlp.c_proj' },
  },
  'gpt-oss': gptOss,
  deepseek2: deepseek,
  gptneox: neox,
  gpt2,
  glm4: {
    name: () => 'Glm4ForCausalLM',
    modules: {
      post_attention_norm: 'post_self_attn_layernorm',
      ffn_norm: 'post_attention_layernorm',
      post_ffw_norm: 'post_mlp_layernorm',
      ...glmFeedForward,
    },
  },
  glm4moe: glm4Moe,
  chatglm,
};
