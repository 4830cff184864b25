// GLM-4.5 to 4.7: attention as in Llama, half of each head rotated, with norms of heads in the larger ones, and the experts of
// DeepSeek V3 (GLM-4.5 Team, "GLM-4.5: Agentic, Reasoning, and Coding (ARC) Foundation Models", 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture, LoadContext } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import type { Model } from '../model.ts';
import { readDecoderConfig } from '../model-config.ts';
import { biasedMixture, expertsBesideShared, readGroupedExperts } from './deepseek-experts.ts';

const solarFields = z.looseObject({ moe_intermediate_size: z.int().positive() });
const ownFields = z.object({ use_qk_norm: z.boolean().nullish() });

export const glm4Moe: Architecture = {
  architectures: ['Glm4MoeForCausalLM'],
  readConfig: (file) => {
    const { use_qk_norm } = checkModelJson(file.path, file.json, ownFields);
    const config = readDecoderConfig(file, ({ attention_bias, ...fields }) => ({
      normEps: fields.rms_norm_eps ?? 1e-5,
      rotaryFactor: 0.5,
      qkvBias: attention_bias,
      hasHeadNorms: use_qk_norm ?? false,
    }));
    return { ...config, ...readGroupedExperts(file, config) };
  },
  load,
};

/** Solar Open: the same without norms of heads, all of each head rotated, and experts in all layers (Upstage, 2025). */
export const solarOpen: Architecture = {
  architectures: ['SolarOpenForCausalLM'],
  readConfig: (file) => {
    const { moe_intermediate_size, ...fields } = checkModelJson(file.path, file.json, solarFields);
    // There are no MLPs that it could be the width of.
    const json = { intermediate_size: moe_intermediate_size, ...fields, moe_intermediate_size };
    const config = readDecoderConfig({ ...file, json }, ({ attention_bias, rms_norm_eps }) => ({
      normEps: rms_norm_eps ?? 1e-5,
      ropeTheta: 1_000_000,
      qkvBias: attention_bias,
    }));
    return {
      ...config,
      ...readGroupedExperts({ ...file, json: { ...json, first_k_dense_replace: 0 } }, config),
    };
  },
  load,
};

function load(context: LoadContext): Promise<Model> {
  return loadDecoder(context, { layer: preNormLayer({ feedForward: expertsBesideShared(biasedMixture) }) });
}
