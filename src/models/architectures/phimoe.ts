// Phi-3.5-MoE: layer norms, biases, the output head's as well, and two experts a token, each of which counts as its logit does among those
// that are near it (Liu et al., "GRIN: GRadient-INformed MoE", 2024).

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { expectExperts } from '../experts-config.ts';
import type { LoadLayer } from '../layers/layer.ts';
import { loadMixture } from '../layers/mixture.ts';
import { layerNorm } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type ModelConfig, readDecoderConfig } from '../model-config.ts';
import { MIXTRAL_NAMES, mixtureName } from './mixtral.ts';

const rope = z.looseObject({ short_mscale: z.number().nullish(), long_mscale: z.number().nullish() });
const ownFields = z.looseObject({
  num_local_experts: z.int().positive(),
  router_jitter_noise: z.number().positive().nullish(),
  lm_head_bias: z.boolean().nullish(),
  rope_scaling: rope.nullish(),
  rope_parameters: rope.nullish(),
  // What all releases say.
  num_experts_per_tok: z.literal(2).nullish(),
  tie_word_embeddings: z.literal(false).nullish(),
});

export const phiMoe: Architecture = {
  // The first is what releases call it.
  architectures: ['PhiMoEForCausalLM', 'PhimoeForCausalLM'],
  readConfig,
  load: (context) => loadDecoder(context, { layer, norm: layerNorm }),
};

function readConfig(file: ConfigFile): ModelConfig {
  const own = checkModelJson(file.path, file.json, ownFields);
  const json = { ...own, rope_parameters: null, rope_scaling: ropeOf(file.path, own) };
  const config = readDecoderConfig({ ...file, json }, (fields) => ({
    normEps: fields.rms_norm_eps ?? 1e-5,
    slidingWindow: fields.sliding_window ?? null,
    ropeTheta: 1_000_000,
    qkvBias: fields.attention_bias,
    attentionOutputBias: fields.attention_bias,
    headBias: own.lm_head_bias,
  }));
  const experts = expectExperts(file.path, {
    count: own.num_local_experts,
    intermediateSize: config.intermediateSize,
    routing: {
      topK: 2,
      scores: 'softmax',
      isNormalized: false,
      // Twice the noise that inputs had in training.
      nearness: 2 * (own.router_jitter_noise ?? 0.01),
    },
    layers: config.layerWindows.map(() => true),
  });
  return { ...config, experts };
}

/** It names the factor on cosines and sines for short and for long contexts. */
function ropeOf(path: string, { rope_scaling, rope_parameters }: z.output<typeof ownFields>) {
  if (!rope_scaling && !rope_parameters) return null;
  const { short_mscale: short, long_mscale: long, ...fields } = { ...rope_scaling, ...rope_parameters };
  if (short !== long) {
    throw new ModelLoadError(
      `${path}: short_mscale and long_mscale must be the same, as in all releases, got ${short} and ${long}`,
    );
  }
  return short ? { ...fields, attention_factor: short } : fields;
}

const layer: LoadLayer = (context, index, prefix) =>
  preNormLayer({
    norm: layerNorm,
    feedForwardName: mixtureName(context, prefix),
    feedForward: (own, _index, name) => loadMixture(own, name, { names: MIXTRAL_NAMES }),
  })(context, index, prefix);
