// The encoder of InternVL, as GGUF names it.

import type { EncoderKind } from './encoder-kind.ts';

const WHOLE = 'InternVLForConditionalGeneration';

/** `model_type` by `general.architecture`: converters make Llama of InternLM 2. */
const TEXTS: Readonly<Record<string, string>> = {
  llama: 'llama',
  internlm2: 'llama',
  qwen2: 'qwen2',
  qwen3: 'qwen3',
  qwen3moe: 'qwen3_moe',
};

export const internVl: EncoderKind = {
  architectures: Object.fromEntries(Object.keys(TEXTS).map((name) => [name, WHOLE])),
  placeholder: '<IMG_CONTEXT>',
  config: (layers, encoder) => ({
    downsample_ratio: 1 / (encoder.ofModel('vision.projector.scale_factor') ?? 2),
    vision_config: {
      ...layers,
      image_size: encoder.need('vision.image_size'),
      layer_norm_eps: encoder.ofModel('vision.attention.layer_norm_epsilon') ?? undefined,
      attention_bias: encoder.hasTensor('v.blk.0.attn_q.bias'),
      use_qk_norm: encoder.hasTensor('v.blk.0.attn_q_norm.weight'),
    },
  }),
  textConfig: ({ architecture }) => ({ model_type: TEXTS[architecture] }),
  images: (encoder) => {
    const side = encoder.need('vision.image_size');
    return { size: { height: side, width: side } };
  },
  textRoot: 'model.language_model.',
  modules: {
    'v.class_embd': 'model.vision_tower.embeddings.cls_token',
    'v.patch_embd': 'model.vision_tower.embeddings.patch_embeddings.projection',
    'v.position_embd.weight': 'model.vision_tower.embeddings.position_embeddings',
    'mm.model.mlp.0': 'model.multi_modal_projector.layer_norm',
    'mm.model.mlp.1': 'model.multi_modal_projector.linear_1',
    'mm.model.mlp.3': 'model.multi_modal_projector.linear_2',
  },
  layers: 'model.vision_tower.encoder.layer',
  layerModules: {
    ln1: 'layernorm_before',
    attn_q: 'attention.q_proj',
    attn_k: 'attention.k_proj',
    attn_v: 'attention.v_proj',
    attn_q_norm: 'attention.q_norm',
    attn_k_norm: 'attention.k_norm',
    attn_out: 'attention.projection_layer',
    'ls1.weight': 'lambda_1',
    ln2: 'layernorm_after',
    ffn_up: 'mlp.fc1',
    ffn_down: 'mlp.fc2',
    'ls2.weight': 'lambda_2',
  },
  dimensions: { 'v.class_embd': 3, 'v.position_embd': 3 },
};
