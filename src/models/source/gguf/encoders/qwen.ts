// The encoders of Qwen-VL, as GGUF names them.

import { ModelLoadError } from '../../../../errors.ts';
import { MAX_LAYERS } from '../../../model-config.ts';
import type { GgufKeys } from '../gguf-keys.ts';
import { deepLayers, type EncoderKind, type Fields, type LayerSizes } from './encoder-kind.ts';

/** What the generations of Qwen-VL have in common. */
interface QwenGeneration extends Pick<EncoderKind, 'architectures' | 'config' | 'unused'> {
  readonly merger: readonly [norm: string, first: string, second: string];
  readonly feedForward: Readonly<Record<string, string>>;
  /** Of an image at least, in pixels. */
  readonly leastPixels: number;
  readonly mostPixels: number;
}

function qwen(generation: QwenGeneration): EncoderKind {
  const { merger, feedForward, leastPixels, mostPixels, ...own } = generation;
  const [norm, first, second] = merger.map((name) => `model.visual.merger.${name}`);
  return {
    ...own,
    placeholder: '<|image_pad|>',
    images: (encoder) => ({
      min_pixels: encoder.ofModel('vision.image_min_pixels') ?? leastPixels,
      max_pixels: encoder.ofModel('vision.image_max_pixels') ?? mostPixels,
    }),
    textRoot: 'model.language_model.',
    modules: {
      'v.patch_embd': 'model.visual.patch_embed.proj',
      'v.position_embd': 'model.visual.pos_embed',
      'v.post_ln': norm!,
      'mm.0': first!,
      'mm.2': second!,
    },
    deepMergers: 'model.visual.deepstack_merger_list',
    layers: 'model.visual.blocks',
    layerModules: {
      ln1: 'norm1',
      attn_qkv: 'attn.qkv',
      attn_q: 'attn.q_proj',
      attn_k: 'attn.k_proj',
      attn_v: 'attn.v_proj',
      attn_out: 'attn.proj',
      ln2: 'norm2',
      ...feedForward,
    },
  };
}

function qwenSizes(
  { num_hidden_layers, num_attention_heads, ...layers }: LayerSizes,
  encoder: GgufKeys,
): Fields {
  return {
    ...layers,
    depth: num_hidden_layers,
    num_heads: num_attention_heads,
    spatial_merge_size: encoder.ofModel('vision.spatial_merge_size') ?? 2,
  };
}

/** They are not learned; a converter left a few zeros in their place. */
const NO_POSITIONS: readonly string[] = ['v.position_embd.weight'];

export const qwen2 = qwen({
  architectures: { qwen2vl: 'Qwen2VLForConditionalGeneration' },
  config: ({ hidden_size: embed_dim, ...layers }, encoder) => {
    const mlp_ratio = layers.intermediate_size / embed_dim;
    return {
      vision_config: { ...qwenSizes({ hidden_size: embed_dim, ...layers }, encoder), embed_dim, mlp_ratio },
    };
  },
  unused: NO_POSITIONS,
  merger: ['ln_q', 'mlp.0', 'mlp.2'],
  feedForward: { ffn_up: 'mlp.fc1', ffn_down: 'mlp.fc2' },
  leastPixels: 3136,
  mostPixels: 12_845_056,
});

export const qwen25 = qwen({
  architectures: { qwen2vl: 'Qwen2_5_VLForConditionalGeneration' },
  config: (layers, encoder) => ({
    vision_config: {
      ...qwenSizes(layers, encoder),
      window_size: encoder.ofModel('vision.window_size') ?? undefined,
      fullatt_block_indexes: wholeLayers(encoder, layers.num_hidden_layers),
    },
  }),
  unused: NO_POSITIONS,
  merger: ['ln_q', 'mlp.0', 'mlp.2'],
  feedForward: { ffn_gate: 'mlp.gate_proj', ffn_up: 'mlp.up_proj', ffn_down: 'mlp.down_proj' },
  leastPixels: 3136,
  mostPixels: 12_845_056,
});

export const qwen3 = qwen({
  architectures: {
    qwen3vl: 'Qwen3VLForConditionalGeneration',
    qwen3vlmoe: 'Qwen3VLMoeForConditionalGeneration',
    qwen35: 'Qwen3_5ForConditionalGeneration',
    qwen35moe: 'Qwen3_5MoeForConditionalGeneration',
  },
  config: (layers, encoder) => ({
    vision_config: {
      ...qwenSizes(layers, encoder),
      num_position_embeddings: encoder.shapeOf('v.position_embd.weight')?.[0],
      deepstack_visual_indexes: deepLayers(encoder),
    },
  }),
  merger: ['norm', 'linear_fc1', 'linear_fc2'],
  feedForward: { ffn_up: 'mlp.linear_fc1', ffn_down: 'mlp.linear_fc2' },
  leastPixels: 65_536,
  mostPixels: 16_777_216,
});

/** Those in which all patches see each other: of each so many layers the last. */
function wholeLayers(encoder: GgufKeys, numLayers: number): readonly number[] {
  const count = encoder.need('vision.n_wa_pattern');
  if (!Number.isInteger(count) || count < 1) {
    throw new ModelLoadError(
      `${encoder.path}: clip.vision.n_wa_pattern must be a whole number from 1 on, got ${count}; convert the model again`,
    );
  }
  const numGroups = Math.floor(Math.min(numLayers, MAX_LAYERS) / count);
  return Array.from({ length: numGroups }, (_, group) => (group + 1) * count - 1);
}
