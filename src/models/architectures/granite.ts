// Granite 3: as Llama, with factors on embeddings, attention, what blocks add, and logits (IBM, 2024).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import { loadDecoder } from '../decoder.ts';
import { preNormLayer } from '../layers/pre-norm-layer.ts';
import { type ConfigFile, type DecoderTraits, type ModelConfig, readDecoderConfig } from '../model-config.ts';

export const granite: Architecture = {
  architectures: ['GraniteForCausalLM'],
  readConfig: readGranite,
  load: (context) => loadDecoder(context, { layer: preNormLayer() }),
};

/** @param own traits that only some of them have. */
export function readGranite(file: ConfigFile, own: DecoderTraits = {}): ModelConfig {
  return readDecoderConfig(file, ({ attention_bias, mlp_bias }) => ({
    ...graniteFactors(file),
    ...own,
    qkvBias: attention_bias,
    attentionOutputBias: attention_bias,
    mlpBias: mlp_bias,
  }));
}

const factor = z.number().positive().nullish();
const ownFields = z.object({
  embedding_multiplier: factor,
  attention_multiplier: factor,
  residual_multiplier: factor,
  logits_scaling: factor,
});

function graniteFactors({ path, json }: ConfigFile): DecoderTraits {
  const own = checkModelJson(path, json, ownFields);
  return {
    embeddingScale: own.embedding_multiplier ?? 1,
    attentionScale: own.attention_multiplier ?? 1,
    residualScale: own.residual_multiplier ?? 1,
    logitScale: 1 / (own.logits_scaling ?? 1),
  };
}
