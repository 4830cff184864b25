// The experts of DeepSeek, which others have taken over: chosen from the best groups of them, beside some that compute every
// token; the first layers have one MLP.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import { expectExperts } from '../experts-config.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { expertsOrMlp, loadMixture, SharedExpert } from '../layers/mixture.ts';
import { gatedMlp } from '../layers/mlp.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';

const size = z.int().positive();

const schema = z.object({
  n_routed_experts: size.nullish(),
  /** The same, in newer files. */
  num_local_experts: size.nullish(),
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  n_shared_experts: z.int().nonnegative().nullish(),
  first_k_dense_replace: z.int().nonnegative().nullish(),
  moe_layer_freq: size.nullish(),
  /** Of each layer, in newer files. */
  mlp_layer_types: z.array(z.enum(['dense', 'sparse'])).nullish(),
  topk_method: z.enum(['greedy', 'group_limited_greedy', 'noaux_tc']).nullish(),
  /** Some write null where experts have no groups. */
  n_group: size.nullish(),
  topk_group: size.nullish(),
  norm_topk_prob: z.boolean().nullish(),
  routed_scaling_factor: z.number().positive().nullish(),
  num_nextn_predict_layers: z.int().nonnegative().nullish(),
});

/** How a token's experts are chosen, where config.json does not say it. */
export interface ExpertChoice {
  /** What the router's logits become. */
  readonly scores: 'softmax' | 'sigmoid';
  /** So many of its best experts are what a group is chosen by. */
  readonly best: number;
  /** Whether the scores of the chosen are brought to a sum of 1, unless config.json denies it. */
  readonly isNormalized: boolean;
}

/** As DeepSeek V3 does. */
export const BY_SIGMOIDS: ExpertChoice = { scores: 'sigmoid', best: 2, isNormalized: true };

export function readGroupedExperts(
  { path, json }: ConfigFile,
  { layerWindows }: ModelConfig,
  { scores, best, isNormalized }: ExpertChoice = BY_SIGMOIDS,
): Pick<ModelConfig, 'experts' | 'numDraftLayers'> {
  const fields = checkModelJson(path, json, schema);
  const numDraftLayers = fields.num_nextn_predict_layers ?? 0;
  const count = fields.n_routed_experts ?? fields.num_local_experts ?? null;
  if (count === null) return { experts: null, numDraftLayers };
  const { topk_method, moe_intermediate_size: intermediateSize, mlp_layer_types: types } = fields;
  const [n_group, topk_group] = [fields.n_group ?? 1, fields.topk_group ?? 1];
  const hasGroups = n_group > 1 && topk_method !== 'greedy';
  const isSparse = (layer: number) =>
    layer >= (fields.first_k_dense_replace ?? 0) && layer % (fields.moe_layer_freq ?? 1) === 0;
  const experts = expectExperts(path, {
    count,
    intermediateSize,
    routing: {
      topK: fields.num_experts_per_tok,
      scores,
      groups: hasGroups ? { count: n_group, kept: topk_group, best } : null,
      isNormalized: isNormalized && (fields.norm_topk_prob ?? true),
      scale: fields.routed_scaling_factor ?? 1,
    },
    sharedIntermediateSize: intermediateSize * (fields.n_shared_experts ?? 0),
    layers: layerWindows.map((_, layer) => (types ? types[layer] === 'sparse' : isSparse(layer))),
  });
  return { experts, numDraftLayers };
}

/** One MLP in the first layers; in the others the experts that `chosen` loads, beside those that are shared. */
export function expertsBesideShared(chosen: LoadBlock): LoadBlock {
  return expertsOrMlp((context, layer, prefix) => {
    const intermediateSize = context.config.experts?.sharedIntermediateSize ?? 0;
    const experts = chosen(context, layer, prefix);
    if (intermediateSize === 0) return experts;
    const config = { ...context.config, intermediateSize };
    return new SharedExpert(experts, gatedMlp({ ...context, config }, layer, `${prefix}.shared_experts`));
  });
}

/** Experts whose choice has a bias. */
export const biasedMixture: LoadBlock = (context, _layer, prefix) => {
  const bias = context.weights.vector(
    `${prefix}.gate.e_score_correction_bias`,
    context.config.experts!.count,
  );
  return loadMixture(context, prefix, { bias });
};
