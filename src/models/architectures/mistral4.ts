// Mistral Small 4, the part that reads text: DeepSeek's latent attention, with queries that count more at later positions, and experts
// beside a shared one, which the softmax chooses (Mistral AI, 2026).

import * as z from 'zod';
import { checkModelJson } from '../../util/model-file.ts';
import type { Architecture } from '../architecture.ts';
import type { ConfigFile, ModelConfig } from '../model-config.ts';
import { readQueryGrowth } from '../query-growth.ts';
import { deepseekV2, readLatentConfig } from './deepseek.ts';

export const mistral4: Architecture = {
  architectures: ['Mistral4ForCausalLM'],
  readConfig,
  load: deepseekV2.load,
};

const schema = z.looseObject({ rope_parameters: z.looseObject({}).nullish() });

function readConfig(file: ConfigFile): ModelConfig {
  const fields = checkModelJson(file.path, file.json, schema);
  // It is a share of what is rotated of a head and what is not, which have fields of their own.
  const rope_parameters = { ...fields.rope_parameters, partial_rotary_factor: null };
  const config = readLatentConfig(
    { ...file, json: { ...fields, rope_parameters } },
    { scores: 'softmax', best: 2, isNormalized: true },
  );
  return { ...config, queryGrowth: readQueryGrowth(file, config) };
}
