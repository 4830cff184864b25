// The options of `new LLM({ ... })`: the engine's options of the one table, in camelCase.

import { ConfigError, NotAvailableError } from '../errors.ts';
import type { EngineConfig } from './engine-config.ts';
import { foreignNotice, foreignOption } from './foreign-options.ts';
import type { LoraModuleInput } from './lora-config.ts';
import {
  engineConfig,
  environmentOptions,
  type GivenOption,
  mergeOptions,
  type OptionSource,
} from './merge.ts';
import { type OptionKey, type OptionValues, SERVE_OPTIONS } from './options.ts';
import { LLM_KEYS, speakingToProgram } from './program-words.ts';
import { didYouMean } from './suggest.ts';

export interface LLMOptions
  extends Partial<
    Omit<
      EngineConfig,
      | 'modelPath'
      | 'share'
      | 'cpuBind'
      | 'maxImages'
      | 'kvTransfer'
      | 'speculative'
      | 'structuredOutputs'
      | 'lora'
    >
  > {
  /** Folder of a model in the Hugging Face format, or its name on the hub; by default the bundled small chat model. */
  readonly model?: string | undefined;
  /** `auto`, `nobind`, or the processors of each rank: `0-3|4-7` or `[[0, 1], [2, 3]]`. */
  readonly cpuBind?: string | readonly (readonly number[])[] | null;
  readonly attentionBackend?: string | null;
  readonly attentionConfig?: Readonly<Record<string, unknown>> | null;
  readonly kvTransferConfig?: Readonly<Record<string, unknown>> | null;
  /** Fields as vLLM names them: `{ method: 'ngram', num_speculative_tokens: 5 }`. */
  readonly speculativeConfig?: Readonly<Record<string, unknown>> | null;
  /** Fields as vLLM names them: `{ disable_any_whitespace: true }`. */
  readonly structuredOutputsConfig?: Readonly<Record<string, unknown>> | null;
  /** Images that one prompt may have, as vLLM says it: `{ image: 4 }`. */
  readonly limitMmPerPrompt?: Readonly<Record<string, unknown>> | null;
  /** LoRA adapters that are loaded with the model: `{ name, path }` or `name=path`. */
  readonly loraModules?: readonly LoraModuleInput[];
  /** Let calls name adapters that are loaded when they are first named. */
  readonly enableLora?: boolean;
  readonly maxLoras?: number;
  readonly maxLoraRank?: number;
  readonly trustRemoteCode?: boolean;
}

/**
 * Checks the options; `modelPath` of the result is the model as given, for the hub to resolve, empty if none was given.
 * @param onNotice gets a line about each option of other servers that has no effect here.
 * @throws ConfigError naming the option, what was expected and what was given, or suggesting a name.
 * @throws NotAvailableError for an option of other servers that asks for what svc has not.
 */
export function toEngineConfig(
  options: LLMOptions,
  env: NodeJS.ProcessEnv = process.env,
  onNotice: (line: string) => void = () => {},
): EngineConfig {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(`new LLM(): expected an object such as { model: './folder' }, got ${options}`);
  }
  const given = new Map<OptionKey, GivenOption>();
  for (const [name, value] of Object.entries(options)) {
    const key = LLM_KEYS.find((known) => known === name);
    if (key === undefined) {
      const foreign = foreignOption(name, value, name);
      if (foreign !== null) {
        if (value === undefined || value === null) continue;
        onNotice(`new LLM(): ${speakingToProgram(() => foreignNotice({ ...foreign, param: name }))}`);
        continue;
      }
      throw new ConfigError(`new LLM(): unknown option ${name}${didYouMean(name, LLM_KEYS)}`, {
        param: name,
      });
    }
    if (value !== undefined && value !== null) given.set(key, { value, origin: `new LLM(): ${name}` });
  }
  const merged = speakingToProgram(() => mergeOptions(llmVariables(env), given));
  refuseKvTransfer(merged.values);
  return speakingToProgram(() => engineConfig(merged.values.model ?? '', merged));
}

/** A program has no clients: what is for a server in the environment, such as its keys, is none of its concern. */
function llmVariables(env: NodeJS.ProcessEnv): OptionSource {
  const found = [...environmentOptions(SERVE_OPTIONS, env)];
  return new Map(found.filter(([key]) => LLM_KEYS.includes(key)));
}

/** Only a proxy adds the fields that a transfer needs. */
function refuseKvTransfer({ kvTransferConfig }: OptionValues): void {
  if (Object.keys(kvTransferConfig ?? {}).length === 0) return;
  throw new NotAvailableError(
    'new LLM(): kvTransferConfig is for instances behind a proxy: leave it out, or start them with svc serve --kv-transfer-config',
    { param: 'kvTransferConfig' },
  );
}
