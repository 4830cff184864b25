// Qwen1.5-MoE and Qwen2-MoE: Qwen 2 with experts in some layers, beside one that computes every token and has a gate of its own.
// Source: Qwen Team, "Qwen2 Technical Report", 2024.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { type ExpertsConfig, expectExperts } from '../experts-config.ts';
import type { LoadBlock } from '../layers/layer.ts';
import { expertsOrMlp, loadGatedExpert, loadMixture, SharedExpert } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { qwenWindows } from './qwen2.ts';

const size = z.int().positive();

/** Newer files call the count of experts as other architectures do. */
const schema = z.object({
  num_experts: size.nullish(),
  num_local_experts: size.nullish(),
  num_experts_per_tok: size,
  moe_intermediate_size: size,
  norm_topk_prob: z.boolean().nullish(),
  decoder_sparse_step: size.nullish(),
  mlp_only_layers: z.array(z.int()).nullish(),
});
const shared = z.object({ shared_expert_intermediate_size: size, qkv_bias: z.boolean().nullish() });

export const qwen2Moe: Architecture = {
  architectures: ['Qwen2MoeForCausalLM'],
  readConfig: (file) => {
    const { shared_expert_intermediate_size, qkv_bias } = checkModelJson(file.path, file.json, shared);
    const dense = readDecoderConfig(file, (fields) => ({
      ...qwenWindows(fields),
      // Unlike in Qwen 2: every other layer of the first ones.
      slides: (layer) => layer % 2 === 0 && layer < (fields.max_window_layers ?? 28),
      qkvBias: qkv_bias ?? true,
    }));
    const experts = readQwenExperts(file, dense);
    return { ...dense, experts: { ...experts, sharedIntermediateSize: shared_expert_intermediate_size } };
  },
  load: (context) => loadDecoder(context, { layer: preNormLayer({ feedForward: expertsOrMlp(withShared) }) }),
};

/** Experts beside one for every token, whose gate is a product of its own. */
export const withShared: LoadBlock = (context, _layer, prefix) => {
  const expert = loadGatedExpert(context, `${prefix}.shared_expert`, {
    gateName: `${prefix}.shared_expert_gate`,
    intermediateSize: context.config.experts!.sharedIntermediateSize!,
  });
  return new SharedExpert(loadMixture(context, prefix), expert);
};

/** Each `decoder_sparse_step`-th layer has experts, but for those of `mlp_only_layers`. */
export function readQwenExperts(file: ConfigFile, { layerWindows }: ModelConfig): ExpertsConfig {
  const fields = checkModelJson(file.path, file.json, schema);
  const { decoder_sparse_step, mlp_only_layers } = fields;
  const isSparse = (layer: number) =>
    (layer + 1) % (decoder_sparse_step ?? 1) === 0 && !mlp_only_layers?.includes(layer);
  return expectExperts(file.path, {
    count: fields.num_experts ?? fields.num_local_experts ?? 0,
    intermediateSize: fields.moe_intermediate_size,
    routing: {
      topK: fields.num_experts_per_tok,
      scores: 'softmax',
      isNormalized: fields.norm_topk_prob ?? false,
    },
    layers: layerWindows.map((_, layer) => isSparse(layer)),
  });
}
