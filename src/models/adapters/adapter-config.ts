// Reads adapter_config.json as PEFT writes it: which kind of adapter it is, and how much each of its modules counts. What would
// need other arithmetic than that of LoRA is refused by its name.

import { join } from 'node:path';
import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { type ModelText, parseModelJson, readModelText } from '../../util/model-file.ts';

/** So many patterns are more than any model has kinds of modules. */
const MAX_PATTERNS = 1024;
const patterns = <T extends z.ZodType>(value: T) =>
  z
    .record(z.string().max(1000), value)
    .refine((map) => Object.keys(map).length <= MAX_PATTERNS, `must have at most ${MAX_PATTERNS} patterns`)
    .nullish()
    .transform((map) => map ?? {});
const rank = z.int().positive();
const alpha = z.number();
const layer = z.int().nonnegative();
/** Ends of the names of modules, or a pattern for whole names. */
const modules = z
  .union([z.string().max(10_000), z.array(z.string().max(1000)).max(10_000)])
  .nullish()
  .transform((names) => names ?? null);

const schema = z.looseObject({
  peft_type: z.string(),
  r: rank,
  lora_alpha: alpha,
  use_rslora: z.boolean().nullish(),
  bias: z.string().nullish(),
  target_modules: modules,
  exclude_modules: modules,
  rank_pattern: patterns(rank),
  alpha_pattern: patterns(alpha),
  layers_to_transform: z
    .union([layer, z.array(layer).max(10_000)])
    .nullish()
    .transform((layers) => (typeof layers === 'number' ? [layers] : (layers ?? null))),
  init_lora_weights: z.unknown().optional(),
});

type Fields = z.output<typeof schema>;

export interface AdapterConfig extends Fields {
  /** For messages: the file. */
  readonly path: string;
}

export const ADAPTER_CONFIG = 'adapter_config.json';

/** What changes the arithmetic, and what it is called; most fields are null, false or empty where it is not used. */
const REFUSED: Readonly<Record<string, string>> = {
  use_dora: 'DoRA (weights that are split into size and direction) is',
  use_qalora: 'QALoRA (inputs that are pooled by group) is',
  lora_bias: 'biases of LoRA are',
  alora_invocation_tokens: 'adapters that begin at some token (aLoRA) are',
  layer_replication: 'layers that are repeated are',
  trainable_token_indices: 'trained embeddings are',
  target_parameters: 'adapters of parameters, such as those of experts, are',
  arrow_config: 'adapters that are chosen by the router Arrow are',
  use_bdlora: 'adapters of blocks on the diagonal are',
  megatron_config: 'adapters of Megatron are',
};

/** Beginnings of the ways to start that change the weights of the model, too. */
const CHANGES_BASE = ['pissa', 'olora', 'corda', 'loftq', 'lora_ga'];

/** @throws ModelLoadError naming the field and what was expected. */
export function readAdapterConfig(folder: string): AdapterConfig {
  const file = readModelText(join(folder, ADAPTER_CONFIG));
  if (file === null) {
    throw new ModelLoadError(
      `${folder} holds no ${ADAPTER_CONFIG}: an adapter is a folder as PEFT writes it, with ${ADAPTER_CONFIG} and ` +
        'adapter_model.safetensors',
    );
  }
  const fields = parseModelJson(file, schema);
  expectLora(file, fields);
  return { ...fields, path: file.path };
}

function expectLora({ path }: ModelText, fields: Fields): void {
  const { peft_type, bias, modules_to_save, init_lora_weights } = fields;
  const refuse = (what: string): never => {
    throw new ModelLoadError(`${path}: ${what} not supported; use a LoRA adapter without that`);
  };
  if (peft_type !== 'LORA')
    refuse(`peft_type is ${JSON.stringify(peft_type)}, and adapters other than LORA are`);
  if ((bias ?? 'none') !== 'none') refuse(`bias is ${JSON.stringify(bias)}, and trained biases are`);
  if (isUsed(modules_to_save)) {
    refuse(`modules_to_save is ${JSON.stringify(modules_to_save)}, and modules that are replaced whole are`);
  }
  for (const [field, what] of Object.entries(REFUSED)) if (isUsed(fields[field])) refuse(`${field}: ${what}`);
  const start = typeof init_lora_weights === 'string' ? init_lora_weights : '';
  if (CHANGES_BASE.some((name) => start.startsWith(name))) {
    throw new ModelLoadError(
      `${path}: init_lora_weights is ${JSON.stringify(start)}, with which training changes the weights of the model, too; ` +
        'convert the adapter to plain LoRA when it is saved (path_initial_model_for_weight_conversion)',
    );
  }
}

function isUsed(value: unknown): boolean {
  if (value === null || value === undefined || value === false) return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}
