// DeepSeek V2 and V3, and GLM-4.7-Flash, which is a small V3: latent attention, and from some layer on experts. V2 chooses them by the
// softmax; V3 by sigmoids and a bias that keeps the experts equally busy.
// Sources: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", 2024, and
// "DeepSeek-V3 Technical Report", 2024.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { loadLatentAttention } from '../layers/latent-attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, MAX_HEAD_DIM, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import {
  BY_SIGMOIDS,
  biasedMixture,
  type ExpertChoice,
  expertsBesideShared,
  readGroupedExperts,
} from './deepseek-experts.ts';

const size = z.int().positive();
const headWidth = size.max(MAX_HEAD_DIM);

const schema = z.object({
  kv_lora_rank: headWidth,
  q_lora_rank: size.nullish(),
  qk_nope_head_dim: headWidth,
  qk_rope_head_dim: headWidth,
  v_head_dim: headWidth,
  rope_interleave: z.boolean().nullish(),
});

/** Layers of latent attention and of experts that `mixture` loads. */
const layers = (mixture: LoadBlock) =>
  preNormLayer({ attention: loadLatentAttention, feedForward: expertsBesideShared(mixture) });

export const deepseekV2: Architecture = {
  architectures: ['DeepseekV2ForCausalLM'],
  readConfig: (file) => readLatentConfig(file, { scores: 'softmax', best: 1, isNormalized: false }),
  load: (context) =>
    loadDecoder(context, { layer: layers((layer, _index, prefix) => loadMixture(layer, prefix)) }),
};

export const deepseekV3: Architecture = {
  architectures: ['DeepseekV3ForCausalLM', 'Glm4MoeLiteForCausalLM'],
  readConfig: (file) => readLatentConfig(file, BY_SIGMOIDS),
  load: (context) => loadDecoder(context, { layer: layers(biasedMixture) }),
};

export function readLatentConfig(file: ConfigFile, choice: ExpertChoice): ModelConfig {
  const fields = checkModelJson(file.path, file.json, schema);
  const latent = {
    rank: fields.kv_lora_rank,
    queryRank: fields.q_lora_rank ?? null,
    nopeDim: fields.qk_nope_head_dim,
    ropeDim: fields.qk_rope_head_dim,
    valueDim: fields.v_head_dim,
  };
  const config = readDecoderConfig(file, ({ attention_bias, mlp_bias }) => ({
    headDim: latent.ropeDim,
    attentionOutputBias: attention_bias,
    mlpBias: mlp_bias,
    ropeIsInterleaved: fields.rope_interleave ?? true,
  }));
  const [rope] = config.layerRopes;
  const mscale = rope?.kind === 'yarn' ? rope.mscale : 1;
  const scale = mscale ** 2 / Math.sqrt(latent.nopeDim + latent.ropeDim);
  return {
    ...config,
    latent,
    numKvHeads: 1,
    headDim: latent.rank + latent.ropeDim,
    attentionScales: config.attentionScales.map(() => scale),
    ...readGroupedExperts(file, config, choice),
  };
}
