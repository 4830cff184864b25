// Reads what config.json says of the part of Qwen-VL that sees images, and of how its text part turns their tokens.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { MOST_PATCHES } from '../../images/image-processor.ts';
import type { RopeSections } from '../../ops/ops.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { ConfigFile, ModelConfig, VisionConfig } from '../model-config.ts';
import { readVisionConfig } from './vision-config.ts';

const size = z.int().positive();

/** How many frames of a film a patch has. */
const FRAMES = 2;

const commonFields = {
  depth: size,
  num_heads: size.default(16),
  patch_size: size,
  spatial_merge_size: size.default(2),
  temporal_patch_size: z.literal(FRAMES).default(FRAMES),
  in_channels: z.literal(3).default(3),
};

const qwen2Fields = z.looseObject({
  ...commonFields,
  depth: size.default(32),
  patch_size: size.default(14),
  embed_dim: size.default(1280),
  mlp_ratio: z.number().positive().default(4),
  hidden_act: z.literal('quick_gelu').default('quick_gelu'),
});

const qwen25Fields = z.looseObject({
  ...commonFields,
  depth: size.default(32),
  patch_size: size.default(14),
  hidden_size: size.default(1280),
  intermediate_size: size.default(3420),
  hidden_act: z.string().default('silu'),
  window_size: size.default(112),
  fullatt_block_indexes: z.array(z.int().nonnegative()).default([7, 15, 23, 31]),
});

const qwen3Fields = z.looseObject({
  ...commonFields,
  depth: size.default(27),
  patch_size: size.default(16),
  hidden_size: size.default(1152),
  intermediate_size: size.default(4304),
  hidden_act: z.string().default('gelu_pytorch_tanh'),
  num_position_embeddings: size.default(48 ** 2),
  deepstack_visual_indexes: z.array(z.int().nonnegative()).nullish(),
});

/** Null where config.json has no `vision_config`. */
export const readQwen2Vision = reader(qwen2Fields, (fields, read) =>
  read({ ...fields, hidden_size: fields.embed_dim, intermediate_size: fields.embed_dim * fields.mlp_ratio }),
);

export const readQwen25Vision = reader(qwen25Fields, (fields, read) => {
  const token = fields.patch_size * fields.spatial_merge_size;
  const side = Math.floor(fields.window_size / token) * fields.spatial_merge_size;
  return { ...read(fields), windows: { side, wholeLayers: fields.fullatt_block_indexes } };
});

/** @param usualDeepLayers where config.json has no `deepstack_visual_indexes` */
export function readQwen3Vision(usualDeepLayers: readonly number[]) {
  return reader(qwen3Fields, (fields, read) => ({
    ...read(fields),
    positionsPerSide: Math.floor(Math.sqrt(fields.num_position_embeddings)),
    deepLayers: fields.deepstack_visual_indexes ?? usualDeepLayers,
  }));
}

type CommonFields = z.output<ReturnType<typeof z.looseObject<typeof commonFields>>>;

interface LayerFields extends CommonFields {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly hidden_act: string;
}

const wholeFields = z.object({ vision_config: z.unknown().optional() });

function reader<T extends z.ZodType<CommonFields>>(
  schema: T,
  make: (fields: z.output<T>, read: (fields: LayerFields) => VisionConfig) => VisionConfig,
): (file: ConfigFile) => VisionConfig | null {
  return (file) => {
    const { vision_config: given } = checkModelJson(file.path, file.json, wholeFields);
    if (given === undefined) return null;
    return make(checkModelJson(file.path, given, schema), (fields) => readLayers(file, fields));
  };
}

/** In the words of the encoders of other models. */
function readLayers(file: ConfigFile, fields: LayerFields): VisionConfig {
  const { patch_size, spatial_merge_size: mergeSize } = fields;
  const vision = {
    hidden_size: fields.hidden_size,
    intermediate_size: fields.intermediate_size,
    num_hidden_layers: fields.depth,
    num_attention_heads: fields.num_heads,
    patch_size,
    image_size: Math.sqrt(MOST_PATCHES) * patch_size,
  };
  const config = readVisionConfig(
    { ...file, json: { vision_config: vision } },
    {
      mergeSize,
      normEps: 1e-6,
      // That of the second generation has no name here: its feed-forward is one of its own.
      activation: fields.hidden_act === 'quick_gelu' ? 'gelu' : fields.hidden_act,
      qkvBias: true,
      attentionOutputBias: true,
      mlpBias: true,
    },
  );
  return { ...config, frames: FRAMES };
}

const ropeFields = z.looseObject({ mrope_section: z.array(z.int().nonnegative()).length(3).nullish() });
const textFields = z.looseObject({
  rope_scaling: ropeFields.nullish(),
  rope_parameters: ropeFields.nullish(),
});

/**
 * @param file config.json of the text part
 * @param usual how many pairs turn by position, line and column, where config.json does not say it
 * @throws ModelLoadError where they are other than the pairs of a head.
 */
export function readRopeSections(
  { path, json }: ConfigFile,
  { rotaryDim }: ModelConfig,
  alternate: boolean,
  usual: readonly [positions: number, lines: number, columns: number],
): RopeSections {
  const { rope_parameters: newer, rope_scaling: older } = checkModelJson(path, json, textFields);
  const [positions, lines, columns] = newer?.mrope_section ?? older?.mrope_section ?? usual;
  if (positions! + lines! + columns! !== rotaryDim / 2) {
    throw new ModelLoadError(
      `${path}: mrope_section must be three numbers whose sum is ${rotaryDim / 2}, the pairs of a head that turn, got ` +
        `${positions}, ${lines} and ${columns}`,
    );
  }
  return { lines: lines!, columns: columns!, alternate };
}
