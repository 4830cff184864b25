// Reads what config.json says of the part of a model that sees images.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import {
  type ConfigFile,
  type DecoderTraits,
  readDecoderConfig,
  type VisionConfig,
} from '../model-config.ts';

const wholeFields = z.object({ vision_config: z.unknown() });

const visionFields = z.looseObject({
  hidden_size: z.int().positive(),
  intermediate_size: z.int().positive(),
  num_hidden_layers: z.int().positive(),
  num_attention_heads: z.int().positive(),
  image_size: z.int().positive(),
  patch_size: z.int().positive(),
  rope_theta: z.number().positive().nullish(),
  /** Which way positions turn is the architecture's own. */
  rope_parameters: z.object({ rope_theta: z.number().positive().nullish() }).nullish(),
});

/** What an architecture makes of `vision_config`. */
interface VisionTraits extends DecoderTraits {
  readonly mergeSize: number;
  /** Left out, null. */
  readonly wholeImageTokens?: number;
  /** What published files leave out, since it is usual. */
  readonly usual?: Readonly<Record<string, unknown>>;
}

/** @throws ModelLoadError naming the file, the field and what was expected. */
export function readVisionConfig(
  file: ConfigFile,
  { mergeSize, wholeImageTokens, usual = {}, ...traits }: VisionTraits,
): VisionConfig {
  const whole = checkModelJson(file.path, file.json, wholeFields);
  const given = checkModelJson(file.path, whole.vision_config, z.record(z.string(), z.unknown()));
  const { rope_parameters: rope, ...own } = checkModelJson(file.path, { ...usual, ...given }, visionFields);
  const { image_size: imageSize, patch_size: patchSize } = own;
  const patchesPerSide = Math.floor(imageSize / patchSize);
  if (patchesPerSide === 0 || patchesPerSide % mergeSize !== 0) {
    throw new ModelLoadError(
      `${file.path}: vision_config.image_size must be a multiple of patch_size, ${mergeSize} patches or a multiple of it, got ${imageSize} ` +
        `with patches of ${patchSize}`,
    );
  }
  const json = {
    ...own,
    rope_theta: rope?.rope_theta ?? own.rope_theta,
    vocab_size: own.hidden_size,
    max_position_embeddings: patchesPerSide ** 2,
  };
  const layers = readDecoderConfig({ ...file, json }, () => traits);
  const encoder = { positions: null, numTokenTypes: 0, pooledRows: 'mean' } as const;
  return {
    layers: { ...layers, encoder },
    patchSize,
    patchesPerSide,
    mergeSize,
    wholeImageTokens: wholeImageTokens ?? null,
    wholeInWindows: false,
    frames: 1,
    windows: null,
    hasTileToken: false,
    positionsPerSide: null,
    deepLayers: [],
    projector: null,
    isStandardized: false,
    hasBounds: false,
  };
}
