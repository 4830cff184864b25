// What reads the images of a model, by the architecture that its config.json names.

import * as z from 'zod';
import { checkModelJson, parseModelJson } from '../util/model-file.ts';
import type { ModelFiles } from '../util/model-files.ts';
import { loadGemma3 } from './gemma3-processor.ts';
import { loadGemma4 } from './gemma4-processor.ts';
import type { GivenFields } from './given-fields.ts';
import { loadIdefics3 } from './idefics3-processor.ts';
import type { ImageProcessor } from './image-processor.ts';
import { findImageSettings, type ImageSettings } from './image-settings.ts';
import { loadInternVL, loadInternVLChat } from './internvl-processor.ts';
import { loadLfm2VL } from './lfm2-vl-processor.ts';
import { loadPixtral } from './pixtral-processor.ts';
import { loadQwenVL } from './qwen-vl-processor.ts';

type Loader = (settings: ImageSettings) => ImageProcessor;

const LOADERS = new Map<string, Loader>([
  ['Idefics3ForConditionalGeneration', loadIdefics3],
  ['SmolVLMForConditionalGeneration', loadIdefics3],
  ['Mistral3ForConditionalGeneration', loadPixtral],
  ['Gemma3ForConditionalGeneration', loadGemma3],
  ['Gemma4ForConditionalGeneration', loadGemma4],
  ['Lfm2VlForConditionalGeneration', loadLfm2VL],
  ['InternVLForConditionalGeneration', loadInternVL],
  ['InternVLChatModel', loadInternVLChat],
  ['Qwen2VLForConditionalGeneration', loadQwenVL],
  ['Qwen2_5_VLForConditionalGeneration', loadQwenVL],
  ['Qwen3VLForConditionalGeneration', loadQwenVL],
  ['Qwen3VLMoeForConditionalGeneration', loadQwenVL],
  ['Qwen3_5ForConditionalGeneration', loadQwenVL],
  ['Qwen3_5MoeForConditionalGeneration', loadQwenVL],
]);

const named = z.object({ architectures: z.array(z.string()).nullish() });

/**
 * Null where the model sees no images, or brings no files that say how it does.
 * @param given fields of --mm-processor-kwargs
 * @throws ModelLoadError naming the file, the field and what was expected; ConfigError where that is of `given`.
 */
export function loadImageProcessor(files: ModelFiles, given: GivenFields = {}): ImageProcessor | null {
  const settings = readImageSettings(files, given);
  return settings && makeImageProcessor(settings);
}

/** What `makeImageProcessor` needs, as plain data; null and errors as of `loadImageProcessor`. */
export function readImageSettings(files: ModelFiles, given: GivenFields = {}): ImageSettings | null {
  const text = files.read('config.json');
  if (text === null) return null;
  const config = { path: text.path, json: parseModelJson(text, z.unknown()) };
  return findLoader(config) === undefined ? null : findImageSettings(config, files, given);
}

/** @param settings of `readImageSettings`. */
export function makeImageProcessor(settings: ImageSettings): ImageProcessor {
  return findLoader(settings.config)!(settings);
}

function findLoader(config: ImageSettings['config']): Loader | undefined {
  const names = checkModelJson(config.path, config.json, named).architectures ?? [];
  return names.map((name) => LOADERS.get(name)).find((one) => one !== undefined);
}
