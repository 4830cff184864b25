// K-EXAONE: the attention of EXAONE 4 with norms before the blocks, and the experts of DeepSeek V3 behind the first layer
// (LG AI Research, "K-EXAONE Technical Report", 2026).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { biasedMixture, expertsBesideShared, readGroupedExperts } from './deepseek-experts.ts';
import { exaone4 } from './exaone4.ts';

/** What DeepSeek calls otherwise. */
const ownFields = z.looseObject({
  num_experts: z.int().positive(),
  num_shared_experts: z.int().nonnegative().nullish(),
  first_k_dense_replace: z.int().nonnegative().nullish(),
});

export const exaoneMoe: Architecture = {
  // As releases spell it, and as transformers 5 does.
  architectures: ['ExaoneMoEForCausalLM', 'ExaoneMoeForCausalLM'],
  readConfig: (file) => {
    const config = exaone4.readConfig(file);
    const fields = checkModelJson(file.path, file.json, ownFields);
    const json = {
      ...fields,
      n_routed_experts: fields.num_experts,
      n_shared_experts: fields.num_shared_experts ?? 1,
      first_k_dense_replace: fields.first_k_dense_replace ?? 1,
    };
    return { ...config, ...readGroupedExperts({ ...file, json }, config) };
  },
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ feedForward: expertsBesideShared(biasedMixture) }) }),
};
