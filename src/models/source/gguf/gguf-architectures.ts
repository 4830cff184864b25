// How GGUF names what svc knows: for each architecture its name and fields in config.json, and its tensors. The original's checkpoints
// and config.json are the common language; to add an architecture is to add its line here.

import type { GgufKeys } from './gguf-keys.ts';

export interface GgufArchitecture {
  /** In config.json. */
  readonly name: (keys: GgufKeys) => string;
  /** Fields of config.json beside those that all have. */
  readonly fields?: (keys: GgufKeys) => Readonly<Record<string, unknown>>;
  /**
   * Modules of a layer that are named in another way than in LAYER_MODULES, or not there: GGUF's name to the original's. `*` stands for
   * the expert, of whose matrices GGUF makes one tensor.
   */
  readonly modules?: Readonly<Record<string, string>>;
  /** Converted so that the two halves of each head of queries and keys take turns. */
  readonly hasPairedHeads?: boolean;
}

/** Modules outside the layers. */
export const MODEL_MODULES: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
};

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

/** What the halves of heads that take turns concerns. */
export const PAIRED_MODULES: readonly string[] = ['attn_q', 'attn_k'];

/** Numbers that models compute their positions from, and no weights. */
export const ROPE_TENSORS: readonly string[] = [
  'rope_freqs.weight',
  'rope_factors_long.weight',
  'rope_factors_short.weight',
];

const llama: GgufArchitecture = {
  // Mistral is converted as Llama; only a window tells them apart.
  name: ({ slidingWindow }) => (slidingWindow === null ? 'LlamaForCausalLM' : 'MistralForCausalLM'),
  hasPairedHeads: true,
};

/** By `general.architecture`. */
export const GGUF_ARCHITECTURES: Readonly<Record<string, GgufArchitecture>> = {
  llama,
  qwen2: { name: () => 'Qwen2ForCausalLM' },
  qwen3: { name: () => 'Qwen3ForCausalLM' },
};
