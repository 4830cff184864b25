// Which adapters are served beside the model: the options about LoRA, checked.

import * as z from 'zod';
import { ConfigError } from '../errors.ts';
import { parseJson } from '../util/parse-json.ts';
import type { Kind } from './option-kinds.ts';

/** An adapter and the name under which requests ask for it. */
export interface LoraModule {
  readonly name: string;
  /** Folder of the adapter. */
  readonly path: string;
  /** Shown as its parent; null is the model's own name. */
  readonly baseModelName: string | null;
}

export interface LoraConfig {
  /** Loaded at start. */
  readonly modules: readonly LoraModule[];
  /** Adapters that may be loaded at the same time. */
  readonly maxLoras: number;
  readonly maxLoraRank: number;
}

/** As the options of the reference spell it. */
export type LoraModuleInput = string | { name: string; path: string; base_model_name?: string | undefined };

const text = z.string().min(1).max(4096);
const asObject = z
  .strictObject({ name: text, path: text, base_model_name: text.nullish() })
  .transform(({ name, path, base_model_name }): LoraModule => {
    return { name, path, baseModelName: base_model_name ?? null };
  });
/** `name=path`, or the object as JSON. */
const asText = z.string().transform((written, context): LoraModule => {
  const [name, ...rest] = written.split('=');
  const given = written.trimStart().startsWith('{') ? parseJson(written) : { name, path: rest.join('=') };
  const parsed = asObject.safeParse(given);
  if (parsed.success) return parsed.data;
  context.addIssue({ code: 'custom', message: 'not an adapter' });
  return z.NEVER;
});
const one = z.union([asObject, asText]);

export function loraModules(): Kind<LoraModule[]> {
  return {
    placeholder: '<name=path...>',
    expected:
      'one or more adapters, each as name=path or {"name": "...", "path": "...", "base_model_name": "..."}',
    takesSeveral: true,
    schema: z.union([z.array(one).min(1), one.transform((module) => [module])]),
  };
}

interface LoraOptions {
  readonly enableLora: boolean;
  readonly loraModules: readonly LoraModule[];
  readonly maxLoras: number;
  readonly maxLoraRank: number;
}

/**
 * Null where no adapter is or can be served.
 * @throws ConfigError where two adapters have one name, or there are more than may be loaded.
 */
export function loraConfig(options: LoraOptions): LoraConfig | null {
  const { enableLora, loraModules, maxLoras, maxLoraRank } = options;
  if (!enableLora && loraModules.length === 0) return null;
  const names = loraModules.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new ConfigError(`--lora-modules: two adapters are called ${twice}; give each a name of its own`, {
      param: 'lora-modules',
    });
  }
  if (names.length > maxLoras) {
    throw new ConfigError(
      `--lora-modules has ${names.length} adapters, --max-loras is ${maxLoras}; raise it to ${names.length}`,
      { param: 'max-loras' },
    );
  }
  return { modules: loraModules, maxLoras, maxLoraRank };
}

/**
 * A request that names both would always get the model.
 * @param modelNames those under which clients ask for the model.
 * @throws ConfigError where an adapter has one of them.
 */
export function expectOtherNames(lora: LoraConfig | null, modelNames: readonly string[]): void {
  const taken = lora?.modules.find(({ name }) => modelNames.includes(name));
  if (taken === undefined) return;
  throw new ConfigError(
    `--lora-modules: ${taken.name} is a name of the model itself (--served-model-name); give the adapter another`,
    { param: 'lora-modules' },
  );
}
