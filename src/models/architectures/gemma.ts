// Gemma 1: as Llama, with scaled embeddings, norms around 1 and a tanh GELU in the feed-forward (Gemma Team, 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { rmsNormAround1 } from '../layers/norm.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import {
  type ConfigFields,
  type ConfigFile,
  type DecoderTraits,
  readDecoderConfig,
} from '../model-config.ts';

export const gemma: Architecture = {
  architectures: ['GemmaForCausalLM'],
  readConfig: (file) => readDecoderConfig(file, (fields) => gemmaTraits(file, fields)),
  load: (context) =>
    loadDecoder(context, { layer: preNormLayer({ norm: rmsNormAround1 }), norm: rmsNormAround1 }),
};

const gemmaFields = z.object({
  hidden_activation: z.string().nullish(),
});

/** What all Gemmas have in common. */
export function gemmaTraits({ path, json }: ConfigFile, fields: ConfigFields): DecoderTraits {
  const own = checkModelJson(path, json, gemmaFields);
  const { hidden_act } = fields;
  return {
    // The first releases say gelu in hidden_act, and mean this one.
    activation:
      own.hidden_activation ?? (hidden_act && hidden_act !== 'gelu' ? hidden_act : 'gelu_pytorch_tanh'),
    embeddingScale: Math.sqrt(fields.hidden_size),
    tieWordEmbeddings: true,
    qkvBias: fields.attention_bias,
    attentionOutputBias: fields.attention_bias,
  };
}
