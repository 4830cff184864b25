// GLM-4.5 to 4.7: attention as in Llama, half of each head rotated, with norms of heads in the larger ones, and the experts of
// DeepSeek V3 (GLM-4.5 Team, "GLM-4.5: Agentic, Reasoning, and Coding (ARC) Foundation Models", 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';
import { biasedMixture, expertsBesideShared, readGroupedExperts } from './deepseek-experts.ts';

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
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ feedForward: expertsBesideShared(biasedMixture) }) }),
};
