// ERNIE 4.5: as Llama, with neighbours rotated against each other. Larger ones have experts beside some that compute every token;
// they are chosen by the softmax and a bias (Baidu ERNIE Team, "ERNIE 4.5 Technical Report", 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { biasedMixture, expertsBesideShared } from './deepseek-experts.ts';

export const ernie45: Architecture = {
  architectures: ['Ernie4_5ForCausalLM'],
  readConfig: (file) => readErnie(file, USUAL_HEAD_DIM),
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

export const ernie45Moe: Architecture = {
  architectures: ['Ernie4_5_MoeForCausalLM'],
  readConfig: readWithExperts,
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ feedForward: expertsBesideShared(mixture) }) }),
};

/** Where config.json does not say it, whatever the width of the model; with experts that decides. */
const USUAL_HEAD_DIM = 128;

const ownFields = z.object({ use_bias: z.boolean().nullish() });

function readErnie(file: ConfigFile, usualHeadDim?: number): ModelConfig {
  const { use_bias: bias } = checkModelJson(file.path, file.json, ownFields);
  return readDecoderConfig(file, (fields) => ({
    headDim: fields.head_dim ?? usualHeadDim,
    normEps: fields.rms_norm_eps ?? 1e-5,
    ropeTheta: 500_000,
    ropeIsInterleaved: true,
    tieWordEmbeddings: true,
    qkvBias: bias,
    attentionOutputBias: bias,
    mlpBias: bias,
  }));
}

const size = z.int().positive();
const expertFields = z.object({
  moe_num_experts: size,
  moe_k: size,
  moe_intermediate_size: size,
  moe_num_shared_experts: z.int().nonnegative().nullish(),
  moe_layer_start_index: z.int().nonnegative().nullish(),
  /** -1 is the last layer. */
  moe_layer_end_index: z.int().min(-1).nullish(),
  moe_layer_interval: size.nullish(),
});

function readWithExperts(file: ConfigFile): ModelConfig {
  const fields = checkModelJson(file.path, file.json, expertFields);
  const config = readErnie(file);
  const { moe_intermediate_size: intermediateSize, moe_layer_end_index: end } = fields;
  const last = end === -1 ? config.numLayers - 1 : (end ?? config.numLayers - 1);
  const isSparse = (layer: number) =>
    (layer + 1) % (fields.moe_layer_interval ?? 1) === 0 &&
    layer >= (fields.moe_layer_start_index ?? 1) &&
    layer <= last;
  const experts = expectExperts(file.path, {
    count: fields.moe_num_experts,
    intermediateSize,
    routing: { topK: fields.moe_k, scores: 'softmax', isNormalized: true },
    sharedIntermediateSize: intermediateSize * (fields.moe_num_shared_experts ?? 2),
    layers: config.layerWindows.map((_, layer) => isSparse(layer)),
  });
  return { ...config, experts };
}

const mixture: LoadBlock = (context, layer, prefix) => {
  const name = `${prefix}.moe_statics.e_score_correction_bias`;
  // Converters write it as that of DeepSeek.
  if (!context.weights.hasVector(name)) return biasedMixture(context, layer, prefix);
  const bias = context.weights.rowVector(name, context.config.experts!.count);
  return loadMixture(context, prefix, { bias });
};
