// The encoders of SigLIP, as GGUF names them: of Gemma 3, of Idefics 3 and SmolVLM, and of LFM2-VL.

import type { GgufKeys } from '../gguf-keys.ts';
import type { EncoderKind } from './encoder-kind.ts';

/** Attention and norms of the encoder of SigLIP. */
const SIGLIP_LAYER: Readonly<Record<string, string>> = {
  ln1: 'layer_norm1',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_out: 'self_attn.out_proj',
  ln2: 'layer_norm2',
  ffn_up: 'mlp.fc1',
  ffn_down: 'mlp.fc2',
};

/** @param root what the original's names of its tensors begin with. */
function siglip(root: string): Pick<EncoderKind, 'modules' | 'layers' | 'layerModules'> {
  return {
    modules: {
      'v.patch_embd': `${root}.embeddings.patch_embedding`,
      'v.position_embd': `${root}.embeddings.position_embedding`,
      'v.post_ln': `${root}.post_layernorm`,
    },
    layers: `${root}.encoder.layers`,
    layerModules: SIGLIP_LAYER,
  };
}

function patchesPerSide(encoder: GgufKeys): number {
  return Math.floor(encoder.need('vision.image_size') / encoder.need('vision.patch_size'));
}

const gemma3Siglip = siglip('model.vision_tower.vision_model');

export const gemma3: EncoderKind = {
  architectures: { gemma3: 'Gemma3ForConditionalGeneration' },
  placeholder: '<image_soft_token>',
  config: (layers, encoder) => {
    const merged = encoder.ofModel('vision.projector.scale_factor') ?? 4;
    return {
      mm_tokens_per_image: Math.floor(patchesPerSide(encoder) / merged) ** 2,
      vision_config: { ...layers, image_size: encoder.need('vision.image_size') },
    };
  },
  images: (encoder) => {
    const side = encoder.need('vision.image_size');
    return { size: { height: side, width: side } };
  },
  ...gemma3Siglip,
  textRoot: 'model.language_model.',
  modules: {
    ...gemma3Siglip.modules,
    'mm.input_projection.weight': 'model.multi_modal_projector.mm_input_projection_weight',
    'mm.soft_emb_norm': 'model.multi_modal_projector.mm_soft_emb_norm',
  },
  normFrom0: 'mm.soft_emb_norm',
};

const idefics3Siglip = siglip('model.vision_model');

/** SmolVLM, too, whose tiles are a quarter as long as the largest picture where the file does not say how long. */
export const idefics3: EncoderKind = {
  architectures: { llama: 'Idefics3ForConditionalGeneration' },
  placeholder: '<image>',
  config: (layers, encoder) => ({
    scale_factor: encoder.need('vision.projector.scale_factor'),
    vision_config: { ...layers, image_size: encoder.need('vision.image_size') },
  }),
  images: (encoder) => {
    const side = encoder.need('vision.image_size');
    return {
      size: { longest_edge: encoder.ofModel('vision.preproc_image_size') ?? 4 * side },
      max_image_size: { longest_edge: side },
    };
  },
  ...idefics3Siglip,
  textRoot: 'model.text_model.',
  modules: { ...idefics3Siglip.modules, 'mm.model.fc': 'model.connector.modality_projection.proj' },
};

const lfm2Siglip = siglip('model.vision_tower.vision_model');

export const lfm2: EncoderKind = {
  architectures: { lfm2: 'Lfm2VlForConditionalGeneration', lfm2moe: 'Lfm2VlForConditionalGeneration' },
  placeholder: '<image>',
  config: (layers, encoder) => ({
    downsample_factor: encoder.ofModel('vision.projector.scale_factor') ?? 2,
    vision_config: { ...layers, num_patches: encoder.shapeOf('v.position_embd.weight')?.[0] },
    projector_hidden_size: encoder.shapeOf('mm.1.weight')?.[0],
    projector_bias: encoder.hasTensor('mm.1.bias'),
    projector_use_layernorm: encoder.hasTensor('mm.input_norm.weight'),
  }),
  images: () => ({}),
  ...lfm2Siglip,
  textRoot: 'model.language_model.',
  modules: {
    ...lfm2Siglip.modules,
    'mm.input_norm': 'model.multi_modal_projector.layer_norm',
    'mm.1': 'model.multi_modal_projector.linear_1',
    'mm.2': 'model.multi_modal_projector.linear_2',
  },
};
