// How GGUF names what svc knows: for each architecture its name and fields in config.json, and its tensors. The original's checkpoints
// and config.json are the common language; to add an architecture is to add its line here, to gguf-mixtures.ts, to
// gguf-recurrent.ts, to gguf-scans.ts or to gguf-text-encoders.ts.

import { type GgufArchitecture, MODEL_MODULES, SANDWICH_NORMS } from './gguf-architecture.ts';
import { gemma3n } from './gguf-gemma3n.ts';
import { gemma4 } from './gguf-gemma4.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { ernieBias, GGUF_MIXTURES, graniteFactors, HUNYUAN_NORMS } from './gguf-mixtures.ts';
import { GGUF_RECURRENT } from './gguf-recurrent.ts';
import { GGUF_SCANS } from './gguf-scans.ts';
import { GGUF_TEXT_ENCODERS } from './gguf-text-encoders.ts';

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
    // Of Command R+.
    use_qk_norm: keys.hasTensor('blk.0.attn_q_norm.weight'),
  }),
});

/** Mistral Small 3.1 and later, and Ministral 3; the part that reads text. */
const mistral3: GgufArchitecture = {
  name: () => 'Ministral3ForCausalLM',
  fields: () => ({ model_type: 'ministral3' }),
  yarn: (keys) => {
    const scale = keys.ofModel('rope.scaling.yarn_log_multiplier') ?? undefined;
    return {
      mscale: scale,
      mscale_all_dim: scale,
      llama_4_scaling_beta: keys.ofModel('attention.temperature_scale'),
    };
  },
  hasPairedHeads: true,
};

/** Phi-1, 1.5 and 2, of whose first releases files have queries, keys and values in one tensor. */
const phi2: GgufArchitecture = {
  name: () => 'PhiForCausalLM',
  fields: (keys) => ({
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    hidden_act: 'gelu_new',
  }),
  modelModules: { ...MODEL_MODULES, output_norm: 'model.final_layernorm' },
  modules: { attn_output: 'self_attn.dense', ffn_up: 'mlp.fc1', ffn_down: 'mlp.fc2' },
  joinsQkv: true,
};

const stableLm: GgufArchitecture = {
  name: () => 'StableLmForCausalLM',
  fields: (keys) => ({
    layer_norm_eps: keys.ofModel('attention.layer_norm_epsilon'),
    use_qkv_bias: keys.hasTensor('blk.0.attn_q.bias'),
    qk_layernorm: keys.hasTensor('blk.0.attn_q_norm.weight'),
    // Where config.json does not say, converters say so whatever the model is.
    use_parallel_residual: !keys.hasTensor('blk.0.ffn_norm.weight'),
  }),
  modules: { attn_q_norm: 'self_attn.q_layernorm.norms.*', attn_k_norm: 'self_attn.k_layernorm.norms.*' },
};

/** Without the stretching of positions that a config.json without a word of it means. */
const apertus: GgufArchitecture = {
  name: () => 'ApertusForCausalLM',
  fields: (keys) => (keys.hasTensor('rope_freqs.weight') ? {} : { rope_scaling: { rope_type: 'default' } }),
  modules: { attn_norm: 'attention_layernorm', ffn_norm: 'feedforward_layernorm' },
  layerNumbers: {
    'xielu.alpha_p': 'mlp.act_fn.alpha_p',
    'xielu.alpha_n': 'mlp.act_fn.alpha_n',
    'xielu.beta': 'mlp.act_fn.beta',
    'xielu.eps': 'mlp.act_fn.eps',
  },
};

/** What goes into the last products of attention and feed-forward is normalised. */
const SUB_NORMS: Readonly<Record<string, string>> = {
  attn_sub_norm: 'self_attn.attn_sub_norm',
  ffn_sub_norm: 'mlp.ffn_sub_norm',
};

/** As ggml's converter calls BitNet, that of before 2025 included, which has another activation. */
const bitnet: GgufArchitecture = {
  name: () => 'BitNetForCausalLM',
  fields: (keys) => ({
    hidden_act: keys.text('bitnet.hidden_activation') ?? 'silu',
    rope_theta: keys.ofModel('rope.freq_base') ?? 10_000,
  }),
  modules: SUB_NORMS,
};

/** As Microsoft's converter calls BitNet b1.58 2B4T, whose tokenizer is that of Llama 3. */
const bitnet2B4T: GgufArchitecture = {
  name: () => 'BitNetForCausalLM',
  fields: () => ({ hidden_act: 'relu2' }),
  modules: SUB_NORMS,
  preTokenizer: 'llama-bpe',
};

/** By `general.architecture`. */
export const GGUF_ARCHITECTURES: Readonly<Record<string, GgufArchitecture>> = {
  llama,
  qwen2: { name: () => 'Qwen2ForCausalLM' },
  qwen3: { name: () => 'Qwen3ForCausalLM' },
  // What sees images is a file of its own, see encoders/.
  qwen2vl: { name: () => 'Qwen2ForCausalLM' },
  qwen3vl: { name: () => 'Qwen3ForCausalLM' },
  gemma: { name: () => 'GemmaForCausalLM', hasNormsFrom0: true },
  gemma2: {
    name: () => 'Gemma2ForCausalLM',
    fields: (keys) => ({
      ...gemmaScores(keys, LARGEST_GEMMA.gemma2),
      attn_logit_softcapping: keys.ofModel('attn_logit_softcapping') ?? undefined,
      final_logit_softcapping: keys.ofModel('final_logit_softcapping') ?? undefined,
    }),
    modules: SANDWICH_NORMS,
    hasNormsFrom0: true,
  },
  gemma3: {
    name: () => 'Gemma3ForCausalLM',
    fields: (keys) => ({
      ...gemmaScores(keys, LARGEST_GEMMA.gemma3),
      rope_theta: keys.ofModel('rope.freq_base') ?? 1_000_000,
      rope_local_base_freq: keys.ofModel('rope.freq_base_swa') ?? 10_000,
    }),
    modules: SANDWICH_NORMS,
    hasNormsFrom0: true,
  },
  gemma3n,
  gemma4,
  mistral3,
  bitnet,
  'bitnet-25': bitnet2B4T,
  'bitnet-b1.58': bitnet2B4T,
  phi2,
  phi3: {
    name: () => 'Phi3ForCausalLM',
    modules: { attn_qkv: 'self_attn.qkv_proj', ffn_up: 'mlp.gate_up_proj' },
  },
  granite: { name: () => 'GraniteForCausalLM', fields: graniteFactors, hasPairedHeads: true },
  apertus,
  arcee: { name: () => 'ArceeForCausalLM', hasPairedHeads: true },
  'hunyuan-dense': { name: () => 'HunYuanDenseV1ForCausalLM', modules: HUNYUAN_NORMS },
  nemotron: {
    name: () => 'NemotronForCausalLM',
    fields: (keys) => ({ norm_eps: keys.ofModel('attention.layer_norm_epsilon') ?? undefined }),
    hasNormsFrom0: true,
  },
  // Converters take its queries, keys and values apart.
  internlm2: { name: () => 'LlamaForCausalLM', hasPairedHeads: true },
  stablelm: stableLm,
  smollm3: { name: () => 'SmolLM3ForCausalLM', hasPairedHeads: true },
  olmo: {
    name: () => 'OlmoForCausalLM',
    fields: (keys) => ({ clip_qkv: keys.ofModel('attention.clamp_kqv') }),
    hasPairedHeads: true,
  },
  olmo2: {
    name: (keys) => (keys.slidingWindow === null ? 'Olmo2ForCausalLM' : 'Olmo3ForCausalLM'),
    fields: (keys) => ({ layer_types: keys.layerTypes }),
    modules: NORMS_BEHIND,
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
  chatglm,
  ...GGUF_MIXTURES,
  ...GGUF_RECURRENT,
  ...GGUF_SCANS,
  ...GGUF_TEXT_ENCODERS,
};
