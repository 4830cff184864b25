// Gemma 3: as Gemma 2, with norms of heads in the place of bounds, five layers with windows to one without, and a rotation
// of its own for each of the two (Gemma Team, 2025). Of a model that also sees images, with the encoder of SigLIP, tokens of an image see
// each other; and EmbeddingGemma, whose tokens see all those after them, too (Schechter Vera et al., 2025).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, headNorms, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { rmsNormAround1 } from '../layers/norm.ts';
import {
  type ConfigFields,
  type ConfigFile,
  type ModelConfig,
  readDecoderConfig,
  type VisionConfig,
} from '../model-config.ts';
import { product } from '../pooling/pooling-head.ts';
import { byLayerKind } from '../rope-by-layer-kind.ts';
import { resolveRope } from '../rope-config.ts';
import { type PublishedNames, USUAL_NAMES } from '../tensor-names.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { ImageEncoder, type VisionContext } from '../vision/image-encoder.ts';
import { loadSiglip, SIGLIP_TRAITS } from '../vision/siglip.ts';
import { readVisionConfig } from '../vision/vision-config.ts';
import { gemmaTraits } from './gemma.ts';
import { sandwichLayer, scoreTraits } from './gemma2.ts';

export const gemma3: Architecture = {
  architectures: ['Gemma3ForCausalLM', 'Gemma3ForConditionalGeneration'],
  readConfig: (file) =>
    file.architecture === 'Gemma3ForConditionalGeneration' ? readWhole(file) : readText(file, USUAL_NAMES),
  load: (context) => loadDecoder(context, { layer: sandwichLayer(gemma3Attention), norm: rmsNormAround1 }),
  loadImageEncoder,
};

const gemma3Attention: LoadBlock = (context, layer, prefix) =>
  attentionOf(context, layer, {
    qkv: separateQkv(context, prefix),
    headNorms: headNorms(context, prefix, { weightOffset: 1 }),
    output: outputProjection(context, `${prefix}.o_proj`),
  });

const ownFields = z.object({
  head_dim: z.int().positive().nullish(),
  max_position_embeddings: z.number().positive().nullish(),
  rope_local_base_freq: z.number().positive().nullish(),
  sliding_window_pattern: z.int().positive().nullish(),
  use_bidirectional_attention: z.boolean().nullish(),
});

function readText(file: ConfigFile, tensorNames: PublishedNames): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const { far, near } = byLayerKind(file);
  const localRope = resolveRope({
    path: file.path,
    fields: near ?? {},
    theta: near?.rope_theta ?? own.rope_local_base_freq ?? 10000,
    maxPositionEmbeddings: own.max_position_embeddings ?? 131072,
    rotaryDim: own.head_dim ?? 256,
  });
  const isEncoder = own.use_bidirectional_attention ?? false;
  const config = readDecoderConfig(far, (fields) => ({
    ...gemmaTraits(file, fields),
    ...scoreTraits(file, { attention: null, final: null }),
    // Its attention has none, whatever config.json says.
    attentionSoftcap: null,
    headDim: fields.head_dim ?? 256,
    slidingWindow: windowOf(fields, isEncoder),
    slides: (layer) => (layer + 1) % (own.sliding_window_pattern ?? 6) !== 0,
    ropeTheta: 1_000_000,
    ropeOf: ({ isSliding }, rope) => (isSliding ? localRope : rope),
    tensorNames,
  }));
  return isEncoder
    ? { ...config, encoder: { positions: null, numTokenTypes: 0, pooledRows: 'mean' } }
    : config;
}

/** Where a token sees both sides, the published window is that of both. */
function windowOf({ sliding_window: window = 4096 }: ConfigFields, isEncoder: boolean): number | null {
  return isEncoder && window !== null ? Math.floor(window / 2) + 1 : window;
}

/** What published files leave out, since it is usual. */
const USUAL_TEXT = {
  vocab_size: 262208,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  max_position_embeddings: 131072,
};

function readWhole(file: ConfigFile): ModelConfig {
  const text = readText(textPart(file, USUAL_TEXT), IN_WHOLE);
  return { ...text, vision: readVisionPart(file, text) };
}

/** What `vision_config` leaves out where it is usual. */
const USUAL_VISION = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  image_size: 224,
  patch_size: 16,
};

const visionFields = z.looseObject({
  mm_tokens_per_image: z.int().positive().default(256),
  vision_config: z
    .looseObject({
      image_size: z.int().positive().default(USUAL_VISION.image_size),
      patch_size: z.int().positive().default(USUAL_VISION.patch_size),
    })
    .nullish(),
});

function readVisionPart(file: ConfigFile, { slidingWindow }: ModelConfig): VisionConfig | null {
  const { vision_config, mm_tokens_per_image: tokens } = checkModelJson(file.path, file.json, visionFields);
  if (!vision_config) return null;
  const side = Math.floor(vision_config.image_size / vision_config.patch_size);
  const mergeSize = side / Math.sqrt(tokens);
  if (!Number.isInteger(mergeSize)) {
    throw new ModelLoadError(
      `${file.path}: mm_tokens_per_image must be the tokens of a square that divides the ${side} patches of each side of an image, got ${tokens}`,
    );
  }
  // In a window tokens of an image see the later ones of it, however far.
  if (slidingWindow !== null && tokens > slidingWindow) {
    throw new ModelLoadError(
      `${file.path}: mm_tokens_per_image must be at most sliding_window, ${slidingWindow}, got ${tokens}`,
    );
  }
  return readVisionConfig(file, {
    ...SIGLIP_TRAITS,
    mergeSize,
    wholeImageTokens: tokens,
    usual: USUAL_VISION,
  });
}

/** Null where a release has left it out. */
function loadImageEncoder(context: VisionContext): ImageEncoder | null {
  const { config, text, weights } = context;
  const root = ['model.', ''].find(
    (one) => !weights.lacks(`${one}vision_tower.vision_model.embeddings.patch_embedding`),
  );
  if (root === undefined) return null;
  const { hiddenSize: width, normEps } = config.layers;
  const projector = `${root}multi_modal_projector`;
  const norm = weights.vector(`${projector}.mm_soft_emb_norm.weight`, width, 1);
  const project = product(
    weights.transposedClassifier(`${projector}.mm_input_projection_weight`, text.hiddenSize, width),
  );
  return new ImageEncoder(context, {
    ...loadSiglip(context, `${root}vision_tower.vision_model.`),
    order: 'mean',
    project: (ops, means) => project(ops, ops.rmsNorm(means, norm, normEps, 'f32')),
  });
}
