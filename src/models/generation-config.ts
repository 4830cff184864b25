// Reads generation_config.json: sampling defaults of the model, and the tokens that end an answer or are never in one.

import { join } from 'node:path';
import * as z from 'zod';
import { didYouMean } from '../config/suggest.ts';
import { ConfigError } from '../errors.ts';
import { samplingFields } from '../sampling/sampling-fields.ts';
import type { SamplingDefaults } from '../sampling/sampling-params.ts';
import { parseModelJson } from '../util/model-file.ts';
import { FolderFiles, type ModelFiles } from '../util/model-files.ts';
import { zodMessage } from '../util/zod-message.ts';

interface GenerationConfig {
  /** For requests that leave these fields out, in the protocol's spelling. */
  readonly sampling: SamplingDefaults;
  readonly eosTokenIds: readonly number[];
  /** Never sampled. */
  readonly suppressedTokenIds: readonly number[];
  /** No answer may be longer: a max_new_tokens that the user named, not one that the model brings. */
  readonly maxOutputTokens: number | null;
}

/** Where sampling defaults come from. */
interface GenerationConfigOptions {
  /** `auto`: the model's own file, which may be missing; `svc`: only its end and suppressed tokens; else a folder. */
  readonly source: string;
  /** Fields that win over those of the file. */
  readonly override: Readonly<Record<string, unknown>> | null;
}

const { temperature, top_p, top_k, min_p, repetition_penalty, max_tokens } = samplingFields;

const schema = z.object({
  temperature,
  top_p,
  top_k,
  min_p,
  repetition_penalty,
  max_new_tokens: max_tokens,
  eos_token_id: z.union([z.int(), z.array(z.int())]).nullish(),
  suppress_tokens: z.array(z.int()).nullish(),
});

type Fields = z.output<typeof schema>;

/** What the library that writes these files would do anyway: such a value is no choice of the model's makers. */
const LIBRARY_DEFAULTS: Fields = { temperature: 1, top_p: 1, top_k: 50, min_p: 0, repetition_penalty: 1 };

/**
 * @throws ModelLoadError when the file is malformed.
 * @throws ConfigError when the folder named by the user has none, or the override is wrong.
 */
export function readGenerationConfig(files: ModelFiles, options: GenerationConfigOptions): GenerationConfig {
  const { source } = options;
  const isNamed = source !== 'auto' && source !== 'svc';
  const override = parseOverride(options.override ?? {});
  const file = isNamed ? readNamed(source) : (readFields(files) ?? {});
  const defaults = { ...(source === 'svc' ? {} : withoutLibraryDefaults(file)), ...override };
  const { temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens: max_tokens } = defaults;
  const eos = override.eos_token_id ?? file.eos_token_id ?? [];
  return {
    sampling: present({ temperature, top_p, top_k, min_p, repetition_penalty, max_tokens }),
    eosTokenIds: [eos].flat(),
    suppressedTokenIds: override.suppress_tokens ?? file.suppress_tokens ?? [],
    maxOutputTokens: override.max_new_tokens ?? (isNamed ? file.max_new_tokens : null) ?? null,
  };
}

function readFields(files: ModelFiles): Fields | null {
  const file = files.read('generation_config.json');
  return file && parseModelJson(file, schema);
}

function readNamed(folder: string): Fields {
  const fields = readFields(new FolderFiles(folder));
  if (fields !== null) return fields;
  throw new ConfigError(
    `--generation-config ${folder}: there is no ${join(folder, 'generation_config.json')}; name a folder that holds ` +
      'generation_config.json, or auto, or svc',
    { param: 'generation-config' },
  );
}

function parseOverride(override: Readonly<Record<string, unknown>>): Fields {
  const parsed = schema.strict().safeParse(override);
  if (parsed.success) return parsed.data;
  const fields = Object.keys(schema.shape);
  const unknown = Object.keys(override).find((field) => !fields.includes(field));
  const reason =
    unknown === undefined
      ? zodMessage(parsed.error, override, 'the object')
      : `unknown field ${unknown}${didYouMean(unknown, fields)}`;
  throw new ConfigError(`--override-generation-config: ${reason}; its fields are ${fields.join(', ')}`, {
    param: 'override-generation-config',
  });
}

function withoutLibraryDefaults(fields: Fields): Fields {
  const isChosen = ([field, value]: [string, unknown]) => value !== Reflect.get(LIBRARY_DEFAULTS, field);
  return Object.fromEntries(Object.entries(fields).filter(isChosen));
}

function present(fields: Record<string, number | null | undefined>): GenerationConfig['sampling'] {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  );
}
