// Mistral Small 3.1 and later, Magistral, Devstral and Ministral 3: of models that see images, too, the part that reads text; and that
// part published by itself. Mistral Small 4 is published under the same name, and its text part is another architecture.

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import { readQueryGrowth } from '../query-growth.ts';
import { IN_WHOLE, textPart } from '../text-part.ts';
import { mistral, readMistral } from './mistral.ts';
import { mistral4 } from './mistral4.ts';

export const mistral3: Architecture = {
  architectures: ['Mistral3ForConditionalGeneration'],
  readConfig: (file) => ({ ...readTextPart(file), tensorNames: IN_WHOLE }),
  load: (context) => (context.config.latent === null ? mistral : mistral4).load(context),
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

/** What Ministral 3 has where config.json does not say it. */
const USUAL = { sliding_window: null, head_dim: 128 };

function readTextPart(file: ConfigFile): ModelConfig {
  switch (checkModelJson(file.path, file.json, wholeFields).text_config.model_type) {
    case 'mistral4':
      return mistral4.readConfig(textPart(file));
    case 'ministral3':
      return readText(textPart(file, USUAL));
    default:
      return readText(textPart(file));
  }
}

function readText(file: ConfigFile): ModelConfig {
  const config = readMistral(file);
  return { ...config, queryGrowth: readQueryGrowth(file, config) };
}
