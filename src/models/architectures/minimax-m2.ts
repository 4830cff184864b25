// MiniMax-M2: queries and keys normalised over all heads together, a part of each head rotated, and many small experts whose choice
// has a bias (MiniMax, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import type { LoadLayer } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { MIXTRAL_NAMES, mixtureName } from './mixtral.ts';
import { olmoAttention } from './olmo.ts';

export const minimaxM2: Architecture = {
  architectures: ['MiniMaxM2ForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer }),
};

const size = z.int().positive();

const ownFields = z.object({
  num_local_experts: size,
  num_experts_per_tok: size,
  /** Numbers of a head that are rotated. */
  rotary_dim: size.nullish(),
  num_mtp_modules: z.int().nonnegative().nullish(),
  // What all releases say.
  use_qk_norm: z.literal(true).nullish(),
  qk_norm_type: z.literal('per_layer').nullish(),
  scoring_func: z.literal('sigmoid').nullish(),
  use_routing_bias: z.literal(true).nullish(),
  shared_intermediate_size: z.literal(0).nullish(),
});

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const config = readDecoderConfig(file, ({ head_dim, hidden_size, num_attention_heads }) => ({
    ropeTheta: 5_000_000,
    rotaryFactor: own.rotary_dim ? own.rotary_dim / (head_dim ?? hidden_size / num_attention_heads) : 1,
  }));
  const experts = expectExperts(file.path, {
    count: own.num_local_experts,
    intermediateSize: config.intermediateSize,
    routing: { topK: own.num_experts_per_tok, scores: 'sigmoid', isNormalized: true },
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts, numDraftLayers: own.num_mtp_modules ?? 0 };
}

const layer: LoadLayer = (context, index, prefix) =>
  preNormLayer({
    attention: olmoAttention,
    feedForwardName: mixtureName(context, prefix),
    feedForward: (own, _index, name) => {
      const bias = own.weights.vector(`${name}.e_score_correction_bias`, own.config.experts!.count);
      return loadMixture(own, name, { names: MIXTRAL_NAMES, bias });
    },
  })(context, index, prefix);
