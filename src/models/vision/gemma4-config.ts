// Reads what config.json says of the part of Gemma 4 that sees images.

import * as z from 'zod';
import { MOST_TOKENS } from '../../images/gemma4-tokens.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { ConfigFile, VisionConfig } from '../model-config.ts';
import { readVisionConfig } from './vision-config.ts';

const size = z.int().positive();

/** What `vision_config` leaves out where it is usual. */
const USUAL = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 16,
  num_attention_heads: 12,
  head_dim: 64,
};

const visionFields = z.looseObject({
  patch_size: size.default(16),
  pooling_kernel_size: size.default(3),
  position_embedding_size: size.default(10240),
  hidden_activation: z.string().default('gelu_pytorch_tanh'),
  standardize: z.boolean().default(false),
  use_clipped_linears: z.boolean().default(false),
});

const wholeFields = z.object({ vision_config: visionFields.nullish() });

/**
 * Null where config.json has no `vision_config`.
 * @param seesWholeImages whether tokens of an image see each other in the layers of the text part that have a window
 */
export function readGemma4Vision(file: ConfigFile, seesWholeImages: boolean): VisionConfig | null {
  const { vision_config: given } = checkModelJson(file.path, file.json, wholeFields);
  if (!given) return null;
  const mergeSize = given.pooling_kernel_size;
  const side = Math.ceil(Math.sqrt(MOST_TOKENS)) * mergeSize;
  const vision = { ...given, image_size: side * given.patch_size };
  const config = readVisionConfig(
    { ...file, json: { vision_config: vision } },
    {
      mergeSize,
      ...(seesWholeImages && { wholeImageTokens: MOST_TOKENS }),
      usual: USUAL,
      activation: given.hidden_activation,
      ropeTheta: 100,
      attentionScale: 1,
    },
  );
  return {
    ...config,
    wholeInWindows: true,
    positionsPerSide: given.position_embedding_size,
    isStandardized: given.standardize,
    hasBounds: given.use_clipped_linears,
  };
}
