// What the main thread reads of a model: tokenizer, chat template and settings of generation. These are a hundred modules,
// which are imported while the engine thread reads the weights.

import type { EngineConfig } from '../config/engine-config.ts';
import type { ImageProcessor } from '../images/image-processor.ts';
import { loadImageReader } from '../images/image-reader.ts';
import { loadImageProcessor } from '../images/load-image-processor.ts';
import { readGenerationConfig } from '../models/generation-config.ts';
import { readModelConfig } from '../models/registry.ts';
import { openConfiguredSource } from '../models/source/configured-source.ts';
import { type ModelSource, openModelSource } from '../models/source/model-source.ts';
import { type AnswerFormats, answerFormats } from '../parsers/answer-formats.ts';
import type { SamplingDefaults } from '../sampling/sampling-params.ts';
import { readGivenTemplate } from '../tokenizer/given-template.ts';
import { loadTokenizer, type TokenizerInfo } from '../tokenizer/load-tokenizer.ts';
import type { ChatTemplate, Tokenizer } from '../tokenizer/tokenizer.ts';
import { ImageInputs } from './image-inputs.ts';

export interface ModelText {
  /** Null with --skip-tokenizer-init: token ids in, token ids out. */
  readonly tokenizer: Tokenizer | null;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  readonly tokenizerInfo: TokenizerInfo;
  /** Null where the model reads only text. */
  readonly imageInputs: ImageInputs | null;
  /** How the model writes thoughts and calls of functions. */
  readonly answerFormats: AnswerFormats;
  /** From generation_config.json: the values of fields that a request leaves out. */
  readonly samplingDefaults: SamplingDefaults;
  readonly maxOutputTokens: number | null;
  /** Of tokenizer, model and generation settings. */
  readonly eosTokenIds: readonly number[];
  /** Never sampled, from generation_config.json. */
  readonly suppressedTokenIds: readonly number[];
}

const NO_TOKENIZER = { tokenizer: null, chatTemplate: null, info: { tokenizer_class: null } };

/** @throws ModelLoadError or ConfigError naming what to mend. */
export async function readModelText(
  config: EngineConfig,
  onWarning?: (message: string) => void,
): Promise<ModelText> {
  const template = config.chatTemplate === null ? null : await readGivenTemplate(config.chatTemplate);
  const source = openConfiguredSource(config);
  const modelConfig = readModelConfig(source, config);
  const { sampling, maxOutputTokens, eosTokenIds, suppressedTokenIds } = readGenerationConfig(source, {
    source: config.generationConfig,
    override: config.overrideGenerationConfig,
  });
  const { vision, pooling } = modelConfig;
  const takesImages = vision !== null && pooling === null && config.maxImages > 0;
  const given = config.mmProcessorKwargs ?? {};
  const { tokenizer, chatTemplate, info } = config.skipTokenizerInit
    ? NO_TOKENIZER
    : await loadTokenizer(config.tokenizer === null ? source : openModelSource(config.tokenizer), {
        template,
        contentFormat: config.chatTemplateContentFormat,
        imageLine: takesImages ? imageLineOf(loadImageProcessor(source, given)) : null,
        onWarning,
      });
  const primary = tokenizer?.eosTokenId ?? [];
  return {
    tokenizer,
    chatTemplate,
    tokenizerInfo: info,
    imageInputs: tokenizer && takesImages ? await openImages(source, tokenizer, { given, onWarning }) : null,
    answerFormats: answerFormats(config, chatTemplate?.sourceForTools ?? null),
    samplingDefaults: sampling,
    maxOutputTokens,
    eosTokenIds: [...new Set([primary, modelConfig.eosTokenIds, eosTokenIds].flat())],
    suppressedTokenIds,
  };
}

/** What stands for an image in a text; null where nothing does. */
function imageLineOf(processor: ImageProcessor | null): string | null {
  return processor?.isLineOfText ? processor.mark : null;
}

interface ImageOptions {
  /** Of --mm-processor-kwargs. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly onWarning: ((message: string) => void) | undefined;
}

/** Null, and a warning, where the model lacks a file that it needs for them. */
async function openImages(
  source: ModelSource,
  tokenizer: Tokenizer,
  { given, onWarning }: ImageOptions,
): Promise<ImageInputs | null> {
  const reader = loadImageReader(source, given);
  const inputs = reader && (await ImageInputs.open(reader, tokenizer));
  if (inputs !== null) return inputs;
  const lacks =
    reader === null
      ? 'has no preprocessor_config.json'
      : `has no token ${reader.placeholder} in its tokenizer`;
  onWarning?.(`${source.path} ${lacks}: images are refused; fetch the model again to serve them`);
  return null;
}
