// LFM2-VL: LFM2, with the second encoder of SigLIP for each tile of an image.
// Source: Liquid AI, "LFM2 Technical Report", 2025.

import * as z from 'zod';
import { MOST_PATCHES } from '../../images/image-processor.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, VisionConfig } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { loadSiglip2, SIGLIP_TRAITS } from '../vision/siglip.ts';
import { loadTwoProducts } from '../vision/two-product-projector.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { lfm2, lfm2Moe } from './lfm2.ts';

export const lfm2Vl: Architecture = {
  architectures: ['Lfm2VlForConditionalGeneration'],
  readConfig: (file) => {
    const { model_type } = checkModelJson(file.path, file.json, wholeFields).text_config;
    const text = (model_type === 'lfm2_moe' ? lfm2Moe : lfm2).readConfig(textPart(file));
    const tensorNames = { ...text.tensorNames, roots: IN_WHOLE.roots, heads: IN_WHOLE.heads };
    return { ...text, tensorNames, vision: readVision(file) };
  },
  load: (context) => (context.config.experts === null ? lfm2 : lfm2Moe).load(context),
  loadImageEncoder,
};

const size = z.int().positive();

const wholeFields = z.object({
  text_config: z.looseObject({ model_type: z.string().nullish() }),
  downsample_factor: size.default(2),
  vision_feature_layer: z.literal(-1).default(-1),
  vision_config: z.looseObject({ patch_size: size.default(16), num_patches: size.default(256) }),
  projector_hidden_size: size.default(2560),
  projector_hidden_act: z.literal('gelu').default('gelu'),
  projector_bias: z.boolean().default(true),
  projector_use_layernorm: z.boolean().default(true),
});

/** What `vision_config` leaves out where it is usual. */
const USUAL = { hidden_size: 768, intermediate_size: 3072, num_hidden_layers: 12, num_attention_heads: 12 };

function readVision(file: ConfigFile): VisionConfig {
  const whole = checkModelJson(file.path, file.json, wholeFields);
  const { patch_size, num_patches } = whole.vision_config;
  const usual = { ...USUAL, patch_size };
  const given = { ...whole.vision_config, image_size: Math.sqrt(MOST_PATCHES) * patch_size };
  const config = readVisionConfig(
    { ...file, json: { vision_config: given } },
    { ...SIGLIP_TRAITS, mergeSize: whole.downsample_factor, usual },
  );
  return {
    ...config,
    positionsPerSide: Math.floor(Math.sqrt(num_patches)),
    projector: {
      width: whole.projector_hidden_size,
      hasBias: whole.projector_bias,
      hasNorm: whole.projector_use_layernorm,
    },
  };
}

const VISION_ROOTS = ['model.vision_tower.', 'vision_tower.'].flatMap((root) => [
  `${root}vision_model.`,
  root,
]);

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const { weights } = context;
  const root = VISION_ROOTS.find((one) => !weights.lacks(`${one}embeddings.patch_embedding`));
  if (root === undefined) return null;
  const projector = root.startsWith('model.') ? 'model.multi_modal_projector' : 'multi_modal_projector';
  return new ImageEncoder(context, {
    ...loadSiglip2(context, root),
    order: 'by neighbour',
    project: loadTwoProducts(context, {
      norm: `${projector}.layer_norm`,
      first: `${projector}.linear_1`,
      second: `${projector}.linear_2`,
    }),
  });
}
