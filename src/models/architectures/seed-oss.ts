// Seed-OSS: as Llama, with biases on queries, keys and values (ByteDance Seed Team, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { readDecoderConfig } from '../model-config.ts';

const ownFields = z.object({ attention_out_bias: z.boolean().nullish() });

export const seedOss: Architecture = {
  architectures: ['SeedOssForCausalLM'],
  readConfig: (file) => {
    const { attention_out_bias } = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, ({ attention_bias, mlp_bias, head_dim }) => ({
      headDim: head_dim ?? 128,
      qkvBias: attention_bias ?? true,
      attentionOutputBias: attention_out_bias,
      mlpBias: mlp_bias,
    }));
  },
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};
