// Phi-1, 1.5 and 2: attention and a feed-forward without a gate side by side after one layer norm, a part of each head is rotated, and all
// products have biases, the output head as well (Gunasekar et al., "Textbooks Are All You Need", 2023).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { attentionOf, outputProjection, separateQkv } from '../layers/attention.ts';
import type { LoadBlock, LoadLayer } from '../layers/layer.ts';
import { plainMlp } from '../layers/mlp.ts';
import { layerNorm } from '../layers/norm.ts';
import { afterOneNorm } from '../layers/residual.ts';
import { readDecoderConfig } from '../model-config.ts';
import { USUAL_NAMES } from '../tensor-names.ts';

const ownFields = z.object({
  layer_norm_eps: z.number().positive().nullish(),
  // What all releases say.
  qk_layernorm: z.literal(false).nullish(),
  tie_word_embeddings: z.literal(false).nullish(),
});

export const phi: Architecture = {
  architectures: ['PhiForCausalLM'],
  readConfig: (file) => {
    const own = checkModelJson(file.path, file.json, ownFields);
    return readDecoderConfig(file, (fields) => ({
      normEps: own.layer_norm_eps ?? 1e-5,
      activation: fields.hidden_act ?? 'gelu_new',
      rotaryFactor: 0.5,
      qkvBias: true,
      attentionOutputBias: true,
      mlpBias: true,
      headBias: true,
      tensorNames: { ...USUAL_NAMES, finalNorm: 'final_layernorm' },
    }));
  },
  load: (context) => loadDecoder(context, { layer, norm: layerNorm }),
};

const layer: LoadLayer = (context, index, prefix) =>
  afterOneNorm(
    layerNorm(context, `${prefix}.input_layernorm`),
    attention(context, index, `${prefix}.self_attn`),
    mlp(context, index, `${prefix}.mlp`),
  );

const attention: LoadBlock = (context, index, prefix) =>
  attentionOf(context, index, {
    qkv: separateQkv(context, prefix),
    output: outputProjection(context, `${prefix}.dense`),
  });

const mlp = plainMlp({ up: 'fc1', down: 'fc2' });
