// Mixtral: Mistral with experts in the place of the MLP. A token's two weigh as the softmax over them says.
// Source: Jiang et al., "Mixtral of Experts", 2024.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import type { LayerContext, LoadLayer } from '../layers/layer.ts';
import { fusedAt, loadMixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';

const schema = z.object({
  num_local_experts: z.int().positive(),
  num_experts_per_tok: z.int().positive(),
});

/** Of the projections of an expert. */
export const MIXTRAL_NAMES = { gate: 'w1', up: 'w3', down: 'w2' };

export const mixtral: Architecture = {
  architectures: ['MixtralForCausalLM'],
  readConfig: (file) =>
    withExpertsInEachLayer(
      file,
      readDecoderConfig(file, ({ sliding_window, rms_norm_eps }) => ({
        slidingWindow: sliding_window ?? null,
        normEps: rms_norm_eps ?? 1e-5,
      })),
    ),
  load: (context) => loadDecoder(context, { layer }),
};

const layer: LoadLayer = (context, index, prefix) =>
  preNormLayer({
    feedForwardName: mixtureName(context, prefix),
    feedForward: (own, _index, name) => loadMixture(own, name, { names: MIXTRAL_NAMES }),
  })(context, index, prefix);

/** Where all experts are one tensor, the mixture of the layer `prefix` has the name of other architectures' MLPs. */
export function mixtureName({ weights }: LayerContext, prefix: string): string {
  return weights.hasFusedExperts(fusedAt(`${prefix}.mlp.experts`)) ? 'mlp' : 'block_sparse_moe';
}

/** `config` with experts as wide as its MLP in each layer; those of a token weigh as the softmax over them says. */
export function withExpertsInEachLayer({ path, json }: ConfigFile, config: ModelConfig): ModelConfig {
  const { num_local_experts, num_experts_per_tok } = checkModelJson(path, json, schema);
  const experts = expectExperts(path, {
    count: num_local_experts,
    intermediateSize: config.intermediateSize,
    routing: { topK: num_experts_per_tok, scores: 'softmax', isNormalized: true },
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}
