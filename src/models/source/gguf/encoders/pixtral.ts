// The encoder of Pixtral, as GGUF names it.

import type { EncoderKind } from './encoder-kind.ts';

/** Mistral Small 3.1 and later; Pixtral 12B, which has no merger, is another encoder. */
export const pixtral: EncoderKind = {
  architectures: { llama: 'Mistral3ForConditionalGeneration', mistral3: 'Mistral3ForConditionalGeneration' },
  placeholder: '[IMG]',
  needs: 'mm.patch_merger.weight',
  config: (layers, encoder) => ({
    spatial_merge_size: encoder.need('vision.spatial_merge_size'),
    vision_config: {
      ...layers,
      image_size: encoder.need('vision.image_size'),
      hidden_act: encoder.flag('clip.use_silu') ? 'silu' : 'gelu',
      rope_theta: encoder.ofModel('rope.freq_base') ?? 10_000,
    },
  }),
  images: (encoder) => ({ size: { longest_edge: encoder.need('vision.image_size') } }),
  textRoot: 'model.language_model.',
  modules: {
    'v.patch_embd': 'model.vision_tower.patch_conv',
    'v.pre_ln': 'model.vision_tower.ln_pre',
    'mm.input_norm': 'model.multi_modal_projector.norm',
    'mm.patch_merger': 'model.multi_modal_projector.patch_merger.merging_layer',
    'mm.1': 'model.multi_modal_projector.linear_1',
    'mm.2': 'model.multi_modal_projector.linear_2',
  },
  layers: 'model.vision_tower.transformer.layers',
  layerModules: {
    ln1: 'attention_norm',
    attn_q: 'attention.q_proj',
    attn_k: 'attention.k_proj',
    attn_v: 'attention.v_proj',
    attn_out: 'attention.o_proj',
    ln2: 'ffn_norm',
    ffn_gate: 'feed_forward.gate_proj',
    ffn_up: 'feed_forward.up_proj',
    ffn_down: 'feed_forward.down_proj',
  },
  // A copy of what stands behind each line.
  unused: ['v.token_embd.img_break'],
  hasPairedHeads: true,
};
