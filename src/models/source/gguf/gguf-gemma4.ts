// Gemma 4, as GGUF names it: keys of the layers with a window beside those of the others, numbers of each layer, and factors that say
// which frequencies turn.

import { ModelLoadError } from '../../../errors.ts';
import { type GgufArchitecture, MODEL_MODULES, SANDWICH_NORMS } from './gguf-architecture.ts';
import type { GgufKeys } from './gguf-keys.ts';

/** What gives each layer an embedding of its own of each token. */
export const LAYER_INPUT_TABLES: Readonly<Record<string, string>> = {
  per_layer_token_embd: 'model.embed_tokens_per_layer',
  per_layer_model_proj: 'model.per_layer_model_projection',
  per_layer_proj_norm: 'model.per_layer_projection_norm',
};

/** How a layer takes it. */
export const LAYER_INPUT_MODULES: Readonly<Record<string, string>> = {
  inp_gate: 'per_layer_input_gate',
  proj: 'per_layer_projection',
  post_norm: 'post_per_layer_input_norm',
};

export const gemma4: GgufArchitecture = {
  name: () => 'Gemma4ForCausalLM',
  headDim: (keys) => headDimOf(keys, '_swa'),
  fields: (keys) => ({
    ...layerFields(keys),
    // Where an image is, layers get their inputs of this token.
    pad_token_id: keys.number('tokenizer.ggml.padding_token_id'),
    sliding_window: keys.need('attention.sliding_window'),
    final_logit_softcapping: keys.ofModel('final_logit_softcapping'),
    hidden_size_per_layer_input: keys.ofModel('embedding_length_per_layer_input') ?? 0,
    ...expertFields(keys),
    ...ropeFields(keys),
  }),
  modelModules: {
    ...MODEL_MODULES,
    ...LAYER_INPUT_TABLES,
  },
  modules: {
    ...SANDWICH_NORMS,
    'layer_output_scale.weight': 'layer_scalar',
    ...LAYER_INPUT_MODULES,
    post_ffw_norm_1: 'post_feedforward_layernorm_1',
    pre_ffw_norm_2: 'pre_feedforward_layernorm_2',
    post_ffw_norm_2: 'post_feedforward_layernorm_2',
    ffn_gate_inp: 'router.proj',
    'ffn_gate_inp.scale': 'router.scale',
    'ffn_gate_up_exps.weight': 'experts.gate_up_proj',
    'ffn_down_exps.weight': 'experts.down_proj',
    'ffn_down_exps.scale': 'router.per_expert_scale',
  },
};

/** Heads and widths, and which layers have those of others. */
function layerFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const types = keys.expect('gemma4.attention.sliding_window_pattern', keys.layerTypes);
  const slides = (layer: number): boolean => types[layer] === 'sliding_attention';
  const numShared = keys.ofModel('attention.shared_kv_layers') ?? 0;
  const kvHeads = keys.ofLayers('attention.head_count_kv');
  const far = { head_dim: headDimOf(keys, '') };
  const farLayers = [...types.keys()].filter((layer) => !slides(layer));
  return {
    layer_types: types,
    num_key_value_heads: keys.ofSomeLayers('attention.head_count_kv', slides),
    per_layer_config: Object.fromEntries(
      farLayers.map((layer) => [layer, { ...far, num_key_value_heads: kvHeads?.[layer] }]),
    ),
    attention_k_eq_v: farLayers.length > 0 && !keys.hasTensor(`blk.${farLayers[0]}.attn_v.weight`),
    num_kv_shared_layers: numShared,
    ...widthFields(keys, keys.numLayers - numShared),
  };
}

/** Layers that see the keys of others may be twice as wide as these. */
function widthFields(keys: GgufKeys, firstShared: number): Readonly<Record<string, unknown>> {
  const key = 'feed_forward_length';
  const width = keys.expect(
    `gemma4.${key}`,
    keys.ofSomeLayers(key, (layer) => layer < firstShared),
  );
  const sharedWidth = keys.ofSomeLayers(key, (layer) => layer >= firstShared) ?? width;
  if (sharedWidth !== width && sharedWidth !== 2 * width) {
    throw new ModelLoadError(
      `${keys.path}: gemma4.${key} must be ${width} or ${2 * width} in the last layers, which see the keys of others, got ${sharedWidth}`,
    );
  }
  return { intermediate_size: width, use_double_wide_mlp: sharedWidth === 2 * width };
}

function expertFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const count = keys.ofModel('expert_count') ?? 0;
  return {
    enable_moe_block: count > 0,
    num_experts: count,
    top_k_experts: keys.ofModel('expert_used_count'),
    moe_intermediate_size: keys.ofModel('expert_feed_forward_length'),
  };
}

/** In the place of those that are the same for all layers. */
function ropeFields(keys: GgufKeys): Readonly<Record<string, unknown>> {
  return {
    rope_parameters: {
      full_attention: {
        rope_type: 'proportional',
        partial_rotary_factor: turningShare(keys, headDimOf(keys, '') / 2),
        rope_theta: keys.ofModel('rope.freq_base') ?? 1_000_000,
      },
      sliding_attention: {
        rope_type: 'default',
        rope_theta: keys.ofModel('rope.freq_base_swa') ?? 10_000,
      },
    },
    rope_theta: undefined,
    rope_scaling: undefined,
    partial_rotary_factor: undefined,
  };
}

/** What a frequency is divided by that is not to turn. */
const STANDS_STILL = 1e30;

/** Of the frequencies of layers without a window: the first are as they are, and the others stand still. */
function turningShare(keys: GgufKeys, frequencies: number): number {
  const name = 'rope_freqs.weight';
  const divisors = keys.vector(name) ?? [];
  const first = divisors.findIndex((divisor) => divisor !== 1);
  const turning = first < 0 ? divisors.length : first;
  const others = divisors.slice(turning);
  if (turning > 0 && divisors.length === frequencies && others.every((one) => one >= STANDS_STILL))
    return turning / frequencies;
  throw new ModelLoadError(
    `${keys.path}: tensor ${name} must hold ${frequencies} numbers, 1 for each frequency that turns and then ${STANDS_STILL} for each ` +
      'that does not; convert the model again',
  );
}

/** @param ending of the keys of layers with a window, or none. */
function headDimOf(keys: GgufKeys, ending: '_swa' | ''): number {
  const headDim = keys.need(`attention.key_length${ending}`);
  const valueDim = keys.ofModel(`attention.value_length${ending}`) ?? headDim;
  const rotaryDim = keys.ofModel(`rope.dimension_count${ending}`) ?? headDim;
  if (valueDim === headDim && rotaryDim === headDim) return headDim;
  throw new ModelLoadError(
    `${keys.path}: heads of ${headDim} numbers in keys, of which ${rotaryDim} are rotated, and ${valueDim} in values are not served; ` +
      'expected as many of each',
  );
}
