// DeepSeek V2 and V3: latent attention, and from some layer on experts, chosen from the best groups of them, beside some that
// compute every token. V2 chooses by the softmax; V3 by sigmoids and a bias that keeps the experts equally busy.
// Sources: DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model", 2024, and
// "DeepSeek-V3 Technical Report", 2024.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { type ExpertsConfig, expectExperts } from '../experts-config.ts';
import { loadLatentAttention } from '../layers/latent-attention.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { expertsOrMlp, loadMixture, SharedExpert } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

const size = z.int().positive();

const schema = z.object({
  kv_lora_rank: size,
  q_lora_rank: size.nullish(),
  qk_nope_head_dim: size,
  qk_rope_head_dim: size,
  v_head_dim: size,
  n_routed_experts: size.nullish(),
  /** The same, in newer files. */
  num_local_experts: size.nullish(),
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  n_shared_experts: z.int().nonnegative().nullish(),
  first_k_dense_replace: z.int().nonnegative().nullish(),
  moe_layer_freq: size.nullish(),
  topk_method: z.enum(['greedy', 'group_limited_greedy', 'noaux_tc']).nullish(),
  /** Some write null where experts have no groups. */
  n_group: size.nullish(),
  topk_group: size.nullish(),
  norm_topk_prob: z.boolean().nullish(),
  routed_scaling_factor: z.number().positive().nullish(),
  num_nextn_predict_layers: z.int().nonnegative().nullish(),
  rope_interleave: z.boolean().nullish(),
});
type Fields = z.output<typeof schema>;

const withShared =
  (chosen: LoadBlock): LoadBlock =>
  (context, layer, prefix) => {
    const intermediateSize = context.config.experts?.sharedIntermediateSize ?? 0;
    const experts = chosen(context, layer, prefix);
    if (intermediateSize === 0) return experts;
    const config = { ...context.config, intermediateSize };
    return new SharedExpert(experts, gatedMlp({ ...context, config }, layer, `${prefix}.shared_experts`));
  };

/** Layers of latent attention and of experts that `mixture` loads. */
const layers = (mixture: LoadBlock) =>
  preNormLayer({ attention: loadLatentAttention, feedForward: expertsOrMlp(withShared(mixture)) });

export const deepseekV2: Architecture = {
  architectures: ['DeepseekV2ForCausalLM'],
  readConfig: (file) => readConfig(file, 'softmax'),
  load: (context) =>
    loadDecoder(context, { layer: layers((layer, _index, prefix) => loadMixture(layer, prefix)) }),
};

export const deepseekV3: Architecture = {
  architectures: ['DeepseekV3ForCausalLM'],
  readConfig: (file) => readConfig(file, 'sigmoid'),
  load: (context) => loadDecoder(context, { layer: layers(biasedMixture) }),
};

const biasedMixture: LoadBlock = (context, _layer, prefix) => {
  const bias = context.weights.vector(
    `${prefix}.gate.e_score_correction_bias`,
    context.config.experts!.count,
  );
  return loadMixture(context, prefix, { bias });
};

function readConfig(file: ConfigFile, scores: 'softmax' | 'sigmoid'): ModelConfig {
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
    numDraftLayers: fields.num_nextn_predict_layers ?? 0,
    experts: readExperts(file, config, fields, scores),
  };
}

function readExperts(
  { path }: ConfigFile,
  { layerWindows }: ModelConfig,
  fields: Fields,
  scores: 'softmax' | 'sigmoid',
): ExpertsConfig | null {
  const count = fields.n_routed_experts ?? fields.num_local_experts ?? null;
  if (count === null) return null;
  const { topk_method, moe_intermediate_size: intermediateSize } = fields;
  const [n_group, topk_group] = [fields.n_group ?? 1, fields.topk_group ?? 1];
  const hasGroups = n_group > 1 && topk_method !== 'greedy';
  const best = scores === 'softmax' ? 1 : 2;
  const isSparse = (layer: number) =>
    layer >= (fields.first_k_dense_replace ?? 0) && layer % (fields.moe_layer_freq ?? 1) === 0;
  return expectExperts(path, {
    count,
    intermediateSize,
    routing: {
      topK: fields.num_experts_per_tok,
      scores,
      groups: hasGroups ? { count: n_group, kept: topk_group, best } : null,
      isNormalized: scores === 'sigmoid' && (fields.norm_topk_prob ?? true),
      scale: fields.routed_scaling_factor ?? 1,
    },
    sharedIntermediateSize: intermediateSize * (fields.n_shared_experts ?? 0),
    layers: layerWindows.map((_, layer) => isSparse(layer)),
  });
}
