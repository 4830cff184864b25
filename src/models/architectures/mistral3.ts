// Mistral Small 3.1 and later, Magistral, Devstral and Ministral 3: of models that see images, too, the part that reads text; and that
// part published by itself. Mistral Small 4 is published under the same name, and its text part is another architecture.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, ModelConfig, VisionConfig } from '../model-config.ts';
import { activated, headOf, product } from '../pooling/pooling-head.ts';
import { readQueryGrowth } from '../query-growth.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { loadPixtral } from '../vision/pixtral.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { mistral, readMistral } from './mistral.ts';
import { mistral4 } from './mistral4.ts';

export const mistral3: Architecture = {
  architectures: ['Mistral3ForConditionalGeneration'],
  readConfig: (file) => ({ ...readTextPart(file), tensorNames: IN_WHOLE, vision: readVisionPart(file) }),
  load: (context) => (context.config.latent === null ? mistral : mistral4).load(context),
  loadImageEncoder,
};

export const ministral3: Architecture = {
  architectures: ['Ministral3ForCausalLM'],
  readConfig: (file) =>
    readText({ ...file, json: { ...USUAL, ...checkModelJson(file.path, file.json, anyFields) } }),
  load: mistral.load,
};

const anyFields = z.record(z.string(), z.unknown());
const wholeFields = z.object({
  text_config: z.object({ model_type: z.string().nullish() }),
});

/** What Ministral 3 has where config.json does not say it. */
const USUAL = { sliding_window: null, head_dim: 128 };

const visionFields = z.looseObject({
  vision_config: z.unknown().optional(),
  vision_feature_layer: z.literal(-1).default(-1),
  spatial_merge_size: z.int().positive().default(2),
  multimodal_projector_bias: z.literal(false).default(false),
  projector_hidden_act: z.literal('gelu').default('gelu'),
});

/** What `vision_config` leaves out where it is usual. */
const USUAL_VISION = {
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 24,
  num_attention_heads: 16,
  image_size: 1024,
  patch_size: 16,
  hidden_act: 'gelu',
};

function readVisionPart(file: ConfigFile): VisionConfig | null {
  const { vision_config, spatial_merge_size: mergeSize } = checkModelJson(file.path, file.json, visionFields);
  return vision_config === undefined
    ? null
    : readVisionConfig(file, { normEps: 1e-5, mergeSize, usual: USUAL_VISION });
}

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const { config, text, weights } = context;
  const root = ['model.', ''].find((one) => !weights.lacks(`${one}vision_tower.patch_conv`));
  if (root === undefined) return null;
  const { hiddenSize: width } = config.layers;
  const { hiddenSize: n } = text;
  const projector = `${root}multi_modal_projector`;
  const weight = weights.vector(`${projector}.norm.weight`, width);
  const merge = weights.classifier(
    `${projector}.patch_merger.merging_layer`,
    width,
    width * config.mergeSize ** 2,
    false,
  );
  const first = weights.classifier(`${projector}.linear_1`, n, width, false);
  const second = weights.classifier(`${projector}.linear_2`, n, n, false);
  return new ImageEncoder(context, {
    ...loadPixtral(context, `${root}vision_tower.`),
    finalNorm: ({ ops }, x, dtype) => ops.rmsNorm(x, weight, text.normEps, dtype),
    order: 'by number',
    project: headOf(product(merge), product(first), activated('gelu'), product(second)),
  });
}

function readTextPart(file: ConfigFile): ModelConfig {
  switch (checkModelJson(file.path, file.json, wholeFields).text_config.model_type) {
    case 'mistral4':
      return mistral4.readConfig(textPart(file));
    case 'ministral3':
      return readText(textPart(file, USUAL));
    default:
      return readText(textPart(file));
  }
}

function readText(file: ConfigFile): ModelConfig {
  const config = readMistral(file);
  return { ...config, queryGrowth: readQueryGrowth(file, config) };
}
