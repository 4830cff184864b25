// What svc must know of an architecture to read its GGUF files, and what most of them have in common.

import type { GgufKeys } from './gguf-keys.ts';

export interface GgufArchitecture {
  /** In config.json. */
  readonly name: (keys: GgufKeys) => string;
  /** Fields of config.json beside those that all have. */
  readonly fields?: (keys: GgufKeys) => Readonly<Record<string, unknown>>;
  /** What yarn says beside what all have in `rope_scaling`. */
  readonly yarn?: (keys: GgufKeys) => Readonly<Record<string, unknown>>;
  /** How texts are cut where the file does not say (`tokenizer.ggml.pre`); left out: as before there were names. */
  readonly preTokenizer?: string;
  /** Numbers of a head, where `attention.key_length` and `attention.value_length` do not say them. */
  readonly headDim?: (keys: GgufKeys) => number;
  /**
   * Modules of a layer that are named in another way than in LAYER_MODULES, or not there: GGUF's name to the original's. `*` stands for
   * the expert, the head or the stream, of whose matrices GGUF makes one tensor. A name that ends in .weight or .bias is that of one tensor, and
   * so is a name of which there is neither.
   */
  readonly modules?: Readonly<Record<string, string>>;
  /** Where names differ from MODEL_MODULES, and what the names of layers begin with in the place of LAYERS. */
  readonly modelModules?: Readonly<Record<string, string>>;
  readonly layers?: string;
  /** Keys that list a number of each layer, of f32, for which the original's layers have a tensor: what it is called there. */
  readonly layerNumbers?: Readonly<Record<string, string>>;
  /** Converted so that matrices, which the original publishes as [inputs, outputs], are [outputs, inputs]. */
  readonly hasTurnedMatrices?: boolean;
  /** Converted so that weights of norms, which the original publishes as what they differ from 1, are whole; those of linear attention are. */
  readonly hasNormsFrom0?: boolean;
  /** Converted so that the two halves of each head of queries and keys take turns. */
  readonly hasPairedHeads?: boolean;
  /** Whether what ends a text is all that is between two texts that are read together, and no second beginning. */
  readonly joinsPairs?: boolean;
  /** Whether files may have queries, keys and values, which the original publishes apart, in one tensor `attn_qkv`. */
  readonly joinsQkv?: boolean;
}

/** `general.architecture` of a file that sees images for a model. */
export const ENCODER_ARCHITECTURE = 'clip';

/** Modules outside the layers. */
export const MODEL_MODULES: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
  // What makes scores, and vectors of those that were pooled.
  'cls.output': 'score',
  dense_2: '2_Dense.linear',
  dense_3: '3_Dense.linear',
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

/** Norms before and behind both blocks. */
export const SANDWICH_NORMS: Readonly<Record<string, string>> = {
  post_attention_norm: 'post_attention_layernorm',
  ffn_norm: 'pre_feedforward_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
};

/** Modules whose heads have halves that take turns. */
export const PAIRED_MODULES: readonly string[] = ['attn_q', 'attn_k'];

/** Numbers that models compute their positions from, and no weights. */
export const ROPE_TENSORS: readonly string[] = [
  'rope_freqs.weight',
  'rope_factors_long.weight',
  'rope_factors_short.weight',
];
