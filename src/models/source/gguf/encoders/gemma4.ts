// The encoder of Gemma 4, as GGUF names it: all but that of the 12B.

import type { EncoderKind } from './encoder-kind.ts';

/** Products have bounds beside their weights. */
function products(names: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(names).flatMap(([module, name]) => [
      [module, name],
      [`${module}.weight`, `${name}.linear.weight`],
    ]),
  );
}

export const gemma4: EncoderKind = {
  architectures: { gemma4: 'Gemma4ForConditionalGeneration' },
  placeholder: '<|image|>',
  config: (layers, encoder) => {
    const [headDim] = encoder.shapeOf('v.blk.0.attn_q_norm.weight') ?? [];
    const [keyRows = 0] = encoder.shapeOf('v.blk.0.attn_k.weight') ?? [];
    return {
      vision_config: {
        ...layers,
        head_dim: headDim,
        num_key_value_heads: headDim && keyRows / headDim,
        pooling_kernel_size: encoder.ofModel('vision.projector.scale_factor') ?? 3,
        position_embedding_size: encoder.shapeOf('v.position_embd.weight')?.[1],
        standardize: encoder.hasTensor('v.std_bias'),
        use_clipped_linears: encoder.hasTensor('v.blk.0.attn_q.input_max'),
      },
    };
  },
  // Tokens of an image see each other in the large releases, whose layers have no inputs of their own.
  textConfig: (text) => ({
    use_bidirectional_attention: text.ofModel('embedding_length_per_layer_input') ? null : 'vision',
  }),
  images: () => ({}),
  textRoot: 'model.language_model.',
  modules: {
    'v.patch_embd': 'model.vision_tower.patch_embedder.input_proj',
    'v.position_embd.weight': 'model.vision_tower.patch_embedder.position_embedding_table',
    'v.std_bias': 'model.vision_tower.std_bias',
    'v.std_scale': 'model.vision_tower.std_scale',
    'mm.input_projection': 'model.embed_vision.embedding_projection',
  },
  layers: 'model.vision_tower.encoder.layers',
  layerModules: {
    ln1: 'input_layernorm',
    attn_q_norm: 'self_attn.q_norm',
    attn_k_norm: 'self_attn.k_norm',
    attn_post_norm: 'post_attention_layernorm',
    ln2: 'pre_feedforward_layernorm',
    ffn_post_norm: 'post_feedforward_layernorm',
    ...products({
      attn_q: 'self_attn.q_proj',
      attn_k: 'self_attn.k_proj',
      attn_v: 'self_attn.v_proj',
      attn_out: 'self_attn.o_proj',
      ffn_gate: 'mlp.gate_proj',
      ffn_up: 'mlp.up_proj',
      ffn_down: 'mlp.down_proj',
    }),
  },
};
