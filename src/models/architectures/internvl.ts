// InternVL 3 and 3.5 (Zhu et al., 2025; Wang et al., 2025) as transformers publishes them: Qwen or Llama, with an encoder for each square
// tile of an image, of whose rows four neighbours become one.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, VisionConfig } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { loadInternVit } from '../vision/intern-vit.ts';
import { loadTwoProducts } from '../vision/two-product-projector.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { llama } from './llama.ts';
import { qwen2 } from './qwen2.ts';
import { qwen3 } from './qwen3.ts';
import { qwen3Moe } from './qwen3-moe.ts';

export const internVl: Architecture = {
  architectures: ['InternVLForConditionalGeneration'],
  readConfig: (file) => {
    const text = textOf(file).readConfig(textPart(file));
    return { ...text, tensorNames: IN_WHOLE, vision: readVision(file, text.hiddenSize) };
  },
  load: (context) => (context.config.experts === null ? qwen3 : qwen3Moe).load(context),
  loadImageEncoder,
};

/** By `model_type`. */
const TEXTS = { llama, qwen2, qwen3, qwen3_moe: qwen3Moe } as const;

const size = z.int().positive();
/** Some write one number for both sides. */
const side = z.union([size, z.tuple([size, size]).refine(([height, width]) => height === width, 'a square')]);

const wholeFields = z.object({
  text_config: z.object({
    model_type: z.enum(['llama', 'qwen2', 'qwen3', 'qwen3_moe']).default('qwen2'),
  }),
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
  projector_hidden_act: z.literal('gelu').default('gelu'),
  vision_feature_layer: z.literal(-1).default(-1),
  vision_feature_select_strategy: z.literal('default').default('default'),
});

/** What `vision_config` leaves out where it is usual. */
const USUAL = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  hidden_act: 'gelu',
};

function textOf(file: ConfigFile): Architecture {
  return TEXTS[checkModelJson(file.path, file.json, wholeFields).text_config.model_type];
}

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

const PATCHES = 'vision_tower.embeddings.patch_embeddings.projection';

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const root = ['model.', ''].find((one) => !context.weights.lacks(`${one}${PATCHES}`));
  if (root === undefined) return null;
  return new ImageEncoder(context, {
    ...loadInternVit(context, `${root}vision_tower.`),
    order: 'by neighbour',
    project: loadTwoProducts(context, `${root}multi_modal_projector`),
  });
}
