// InternVL 3 and 3.5 (Zhu et al., 2025; Wang et al., 2025): Qwen or Llama, with an encoder for each square tile of an image, of whose rows four
// neighbours become one. They are published in two forms: as transformers writes them, and for code of their authors, InternVLChatModel.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, VisionConfig } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { type InternVitNames, loadInternVit } from '../vision/intern-vit.ts';
import { loadTwoProducts, type TwoProductNames } from '../vision/two-product-projector.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { llama } from './llama.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3Moe } from './qwen3-moe.ts';

export const internVl: Architecture = {
  architectures: ['InternVLForConditionalGeneration', 'InternVLChatModel'],
  readConfig: (file) => {
    const usual = file.architecture === 'InternVLChatModel' ? usualFile(file) : file;
    const { text_config } = checkModelJson(usual.path, usual.json, wholeFields);
    const text = TEXTS[text_config.model_type].readConfig(textPart(usual));
    return { ...text, tensorNames: IN_WHOLE, vision: readVision(usual, text.hiddenSize) };
  },
  load: (context) => (context.config.experts === null ? qwen3 : qwen3Moe).load(context),
  loadImageEncoder,
};

/** By `model_type`. */
const TEXTS = { llama, qwen2, qwen3, qwen3_moe: qwen3Moe } as const;

const size = z.int().positive();
/** Some write one number for both sides. */
const side = z.union([size, z.tuple([size, size]).refine(([height, width]) => height === width, 'a square')]);
const gelu = z.literal('gelu').default('gelu');

const textFields = z.looseObject({
  model_type: z.enum(['llama', 'qwen2', 'qwen3', 'qwen3_moe']).default('qwen2'),
  tie_word_embeddings: z.boolean().nullish(),
});

const wholeFields = z.object({
  text_config: textFields,
  vision_config: z.looseObject({
    image_size: side.default(448),
    patch_size: side.default(14),
    layer_norm_eps: z.number().positive().default(1e-6),
    attention_bias: z.boolean().default(false),
    use_qk_norm: z.boolean().default(false),
    use_absolute_position_embeddings: z.literal(true).default(true),
    use_mean_pooling: z.literal(true).default(true),
  }),
  downsample_ratio: z.number().positive().max(1).default(0.5),
  projector_hidden_act: gelu,
  vision_feature_layer: z.literal(-1).default(-1),
  vision_feature_select_strategy: z.literal('default').default('default'),
});

/** As the authors write it. */
const chatFields = z.looseObject({
  llm_config: textFields,
  vision_config: z.looseObject({
    qkv_bias: z.boolean().default(true),
    qk_normalization: z.boolean().default(false),
  }),
  select_layer: z.literal(-1).default(-1),
  /** The first version has lines and columns of tokens in each other's place. */
  ps_version: z.literal('v2'),
});

/** The same in the words of transformers. */
function usualFile(file: ConfigFile): ConfigFile {
  const { llm_config, vision_config, ...whole } = checkModelJson(file.path, file.json, chatFields);
  const { qkv_bias, qk_normalization, ...vision } = vision_config;
  const json = {
    ...whole,
    text_config: llm_config,
    // That of the whole is not read by their code.
    tie_word_embeddings: llm_config.tie_word_embeddings,
    vision_config: { ...vision, attention_bias: qkv_bias, use_qk_norm: qk_normalization },
  };
  return { ...file, json };
}

/** What `vision_config` leaves out where it is usual. */
const USUAL = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  hidden_act: 'gelu',
};

function readVision(file: ConfigFile, width: number): VisionConfig {
  const { vision_config: vision, downsample_ratio } = checkModelJson(file.path, file.json, wholeFields);
  const [image_size, patch_size] = [vision.image_size, vision.patch_size].map((one) => [one].flat()[0]);
  const config = readVisionConfig(
    { ...file, json: { vision_config: { ...vision, image_size, patch_size } } },
    {
      normEps: vision.layer_norm_eps,
      qkvBias: vision.attention_bias,
      attentionOutputBias: true,
      mlpBias: true,
      hasHeadNorms: vision.use_qk_norm,
      ropeOf: () => null,
      mergeSize: Math.round(1 / downsample_ratio),
      usual: USUAL,
    },
  );
  return { ...config, hasTileToken: true, projector: { width, hasBias: true, hasNorm: true } };
}

/** What a form calls its tensors. */
interface Names {
  readonly encoder: InternVitNames;
  readonly projector: TwoProductNames;
}

const OF_TRANSFORMERS = ['model.', ''].map(
  (root): Names => ({
    encoder: {
      root: `${root}vision_tower.`,
      patches: 'embeddings.patch_embeddings.projection',
      tileToken: 'embeddings.cls_token',
      positions: 'embeddings.position_embeddings',
      layers: 'encoder.layer',
      attention: 'attention',
      fusedQkv: null,
      output: 'projection_layer',
      norms: ['layernorm_before', 'layernorm_after'],
      factors: ['lambda_1', 'lambda_2'],
    },
    projector: {
      norm: `${root}multi_modal_projector.layer_norm`,
      first: `${root}multi_modal_projector.linear_1`,
      second: `${root}multi_modal_projector.linear_2`,
    },
  }),
);

const OF_AUTHORS: Names = {
  encoder: {
    root: 'vision_model.',
    patches: 'embeddings.patch_embedding',
    tileToken: 'embeddings.class_embedding',
    positions: 'embeddings.position_embedding',
    layers: 'encoder.layers',
    attention: 'attn',
    fusedQkv: 'qkv',
    output: 'proj',
    norms: ['norm1', 'norm2'],
    factors: ['ls1', 'ls2'],
  },
  projector: { norm: 'mlp1.0', first: 'mlp1.1', second: 'mlp1.3' },
};

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const isThere = ({ encoder: { root, patches } }: Names) => !context.weights.lacks(`${root}${patches}`);
  const names = [...OF_TRANSFORMERS, OF_AUTHORS].find(isThere);
  if (names === undefined) return null;
  return new ImageEncoder(context, {
    ...loadInternVit(context, names.encoder),
    order: 'by neighbour',
    project: loadTwoProducts(context, names.projector),
  });
}
