// The folders to load from: those of what was named, or else of the chat model that svc brings along.

import { fileURLToPath } from 'node:url';
import type { EngineConfig, LoadFormat } from '../config/engine-config.ts';
import { BUNDLED_MODEL_NAME } from '../config/serve-config.ts';
import type { SpeculativeConfig } from '../config/speculative-config.ts';
import type { DownloadOptions } from '../hub/download.ts';
import type { ModelPart } from '../hub/needed-files.ts';
import { resolveModel } from '../hub/resolve-model.ts';

/** The same place from src/ and from dist/. */
const BUNDLED_MODEL_FOLDER = fileURLToPath(new URL(`../../models/${BUNDLED_MODEL_NAME}`, import.meta.url));

/**
 * @param nameOrPath a folder or a name on the hub; empty is the bundled model.
 * @throws ModelLoadError where there is no such model.
 */
export async function modelFolder(nameOrPath: string, options: DownloadOptions = {}): Promise<string> {
  return resolveModel(nameOrPath === '' ? BUNDLED_MODEL_FOLDER : nameOrPath, options);
}

/**
 * `config` with folders of this machine where it names models of the hub.
 * @throws ModelLoadError where there is no such model.
 */
export async function withFolders(
  config: EngineConfig,
  options: Pick<DownloadOptions, 'onProgress' | 'signal'> = {},
): Promise<EngineConfig> {
  const { modelPath, tokenizer, revision, downloadDir, speculative, loadFormat } = config;
  const model = { ...options, downloadDir, revision, part: partOf(loadFormat) };
  return {
    ...config,
    modelPath: await modelFolder(modelPath, model),
    speculative: await withDraftFolder(speculative, { ...options, downloadDir }),
    tokenizer: tokenizer && (await resolveModel(tokenizer, tokenizerOptions(model, tokenizer === modelPath))),
  };
}

/** Weights that are made up are not downloaded, and of those of another format than was asked for none are. */
function partOf(format: LoadFormat): ModelPart {
  if (format === 'auto') return 'model';
  return format === 'dummy' ? 'texts' : format;
}

async function withDraftFolder(
  config: SpeculativeConfig | null,
  options: DownloadOptions,
): Promise<SpeculativeConfig | null> {
  if (config?.method !== 'draft_model') return config;
  return { ...config, model: await resolveModel(config.model, options) };
}

/** The revision is the model's: another model's tokenizer comes from its main branch. */
function tokenizerOptions(options: DownloadOptions, isOfModel: boolean): DownloadOptions {
  return { ...options, part: 'tokenizer', revision: isOfModel ? options.revision : null };
}
