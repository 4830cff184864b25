// Mistral Small 3.1 and later, Magistral, Devstral and Ministral 3: of models that see images, too, the part that reads text; and that
// part published by itself.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, ModelConfig, QueryGrowth } from '../model-config.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { mistral, readMistral } from './mistral.ts';

export const mistral3: Architecture = {
  architectures: ['Mistral3ForConditionalGeneration'],
  readConfig: readWhole,
  load: mistral.load,
};

export const ministral3: Architecture = {
  architectures: ['Ministral3ForCausalLM'],
  readConfig: (file) =>
    readText({ ...file, json: { ...USUAL, ...checkModelJson(file.path, file.json, anyFields) } }),
  load: mistral.load,
};

const anyFields = z.record(z.string(), z.unknown());
const wholeFields = z.object({
  text_config: z.object({ model_type: z.string().nullish() }),
});
const growth = z
  .object({
    llama_4_scaling_beta: z.number().nonnegative().nullish(),
    original_max_position_embeddings: z.int().positive().nullish(),
  })
  .nullish();
const growthFields = z.object({ rope_parameters: growth, rope_scaling: growth });

/** What Ministral 3 has where config.json does not say it. */
const USUAL = { sliding_window: null, head_dim: 128 };

function readWhole(file: ConfigFile): ModelConfig {
  const { model_type } = checkModelJson(file.path, file.json, wholeFields).text_config;
  return { ...readText(textPart(file, model_type === 'ministral3' ? USUAL : {})), tensorNames: IN_WHOLE };
}

function readText(file: ConfigFile): ModelConfig {
  return { ...readMistral(file), queryGrowth: readGrowth(file) };
}

/** Of Ministral 3. */
function readGrowth({ path, json }: ConfigFile): QueryGrowth | null {
  const { rope_parameters, rope_scaling } = checkModelJson(path, json, growthFields);
  const { llama_4_scaling_beta: beta, original_max_position_embeddings: original } = {
    ...rope_scaling,
    ...rope_parameters,
  };
  return beta && original ? { beta, original } : null;
}
