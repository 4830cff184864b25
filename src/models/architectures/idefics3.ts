// Idefics 3 (Laurençon et al., 2024) and SmolVLM (Marafioti et al., 2025): Llama, with the encoder of SigLIP for each tile of an image, of
// whose rows a square becomes one.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { product } from '../pooling/pooling-head.ts';
import { USUAL_NAMES } from '../tensor-names.ts';
import { textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { loadSiglip, SIGLIP_TRAITS } from '../vision/siglip.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { llama } from './llama.ts';

export const idefics3: Architecture = {
  architectures: ['Idefics3ForConditionalGeneration', 'SmolVLMForConditionalGeneration'],
  readConfig: (file) => {
    const { scale_factor: mergeSize } = checkModelJson(file.path, file.json, wholeFields);
    return {
      ...llama.readConfig(textPart(file)),
      tensorNames: { ...USUAL_NAMES, roots: ['model.text_model.'] },
      vision: readVisionConfig(file, { ...SIGLIP_TRAITS, mergeSize, usual: USUAL }),
    };
  },
  load: llama.load,
  loadImageEncoder,
};

const wholeFields = z.looseObject({ scale_factor: z.int().positive().default(2) });

/** What `vision_config` leaves out where it is usual. */
const USUAL = {
  hidden_size: 1152,
  intermediate_size: 3072,
  num_hidden_layers: 12,
  num_attention_heads: 16,
  image_size: 224,
  patch_size: 32,
};

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const { config, text, weights } = context;
  if (weights.lacks('model.vision_model.embeddings.patch_embedding')) return null;
  const width = config.layers.hiddenSize * config.mergeSize ** 2;
  return new ImageEncoder(context, {
    ...loadSiglip(context, 'model.vision_model.'),
    order: 'by neighbour',
    project: product(
      weights.classifier('model.connector.modality_projection.proj', text.hiddenSize, width, false),
    ),
  });
}
