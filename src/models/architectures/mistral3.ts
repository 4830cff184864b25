// Mistral Small 3.1 and later, Magistral, Devstral and Ministral 3: of models that see images, too, the part that reads text. In
// Ministral 3, queries of positions beyond the first training count more; contexts up to there are served (Mistral AI, 2025).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { mistral, readMistral } from './mistral.ts';

export const mistral3: Architecture = {
  architectures: ['Mistral3ForConditionalGeneration'],
  readConfig: readWhole,
  load: mistral.load,
};

const schema = z.object({
  text_config: z.object({ model_type: z.string().nullish() }),
});
const scaledFields = z.object({
  rope_parameters: z
    .object({
      llama_4_scaling_beta: z.number().nullish(),
      original_max_position_embeddings: z.int().positive().nullish(),
    })
    .nullish(),
});

/** What Ministral 3 has where config.json does not say it. */
const USUAL = { sliding_window: null, head_dim: 128 };

function readWhole(file: ConfigFile): ModelConfig {
  const { model_type } = checkModelJson(file.path, file.json, schema).text_config;
  const text = textPart(file, model_type === 'ministral3' ? USUAL : {});
  const config = { ...readMistral(text), tensorNames: IN_WHOLE };
  const { rope_parameters: scaled } = checkModelJson(file.path, text.json, scaledFields);
  const original = scaled?.llama_4_scaling_beta ? scaled.original_max_position_embeddings : null;
  return original ? { ...config, maxPositionEmbeddings: original, longestContext: original } : config;
}
