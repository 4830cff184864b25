// Reads the tokenizer and the chat template of a model.

import * as z from 'zod';
import type { ContentFormat } from '../config/content-formats.ts';
import { ModelLoadError, messageOf } from '../errors.ts';
import { isGgufPath, type ModelText, parseModelJson } from '../util/model-file.ts';
import type { ModelFiles } from '../util/model-files.ts';
import { preview } from '../util/preview.ts';
import { buildTokenizerJson } from './build/build-document.ts';
import { JinjaChatTemplate, type SpecialTokens } from './chat-template.ts';
import { DECODER_NAMES, decoderSteps } from './decoder-spec.ts';
import { HfTokenizer } from './hf-tokenizer.ts';
import { maxCharsPerToken } from './max-chars-per-token.ts';
import { namedTokens, withNamedTokens } from './named-tokens.ts';
import { probeTokenizer } from './probe-tokenizer.ts';
import type { ChatTemplate, Tokenizer } from './tokenizer.ts';

interface LoadedTokenizer {
  readonly tokenizer: Tokenizer;
  /** Null where the model has none. */
  readonly chatTemplate: ChatTemplate | null;
  readonly info: TokenizerInfo;
}

/** What tokenizer_config.json says of a tokenizer. */
export interface TokenizerInfo {
  /** In the library that it was published for. */
  readonly tokenizer_class: string | null;
  /** Texts of special tokens by their names, such as `bos_token`. */
  readonly [name: string]: string | null;
}

/** A special token is written as its text or as an object around it. */
const specialToken = z
  .union([z.string(), z.object({ content: z.string() }).transform((token) => token.content)])
  .nullish();

const namedTemplates = z.array(z.object({ name: z.string(), template: z.string() }));

const tokenizerConfig = z.object({
  tokenizer_class: z.string().nullish(),
  bos_token: specialToken,
  eos_token: specialToken,
  unk_token: specialToken,
  pad_token: specialToken,
  sep_token: specialToken,
  cls_token: specialToken,
  mask_token: specialToken,
  added_tokens_decoder: namedTokens,
  chat_template: z.union([z.string(), namedTemplates]).nullish(),
});

type TokenizerConfig = z.output<typeof tokenizerConfig>;

/** What is not named here is for `maxCharsPerToken`: a large file is parsed once. */
const tokenizerFile = z.looseObject({
  model: z.looseObject({
    vocab: z.custom<object>((vocab) => typeof vocab === 'object' && vocab !== null, 'is missing'),
  }),
  added_tokens: z.array(z.looseObject({ content: z.string(), special: z.boolean() })).default([]),
  decoder: z.unknown().optional(),
});

const chatTemplateFile = z.object({ chat_template: z.union([z.string(), namedTemplates]) });

/** The largest published vocabularies have half a million tokens; there are tables with a place for every id up to the largest. */
const MOST_IDS = 2 ** 22;

interface LoadTokenizerOptions {
  readonly template?: string | null;
  readonly contentFormat?: ContentFormat;
  /** See `RenderThreadData`. */
  readonly imageLine?: string | null;
  /** Told that the model's own chat template does not compile: what needs no template works all the same. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

/**
 * Loads tokenizer.json, tokenizer_config.json and the chat template.
 * @throws ModelLoadError naming the file and its expected content.
 */
export async function loadTokenizer(
  files: ModelFiles,
  { template = null, contentFormat = 'auto', imageLine = null, onWarning }: LoadTokenizerOptions = {},
): Promise<LoadedTokenizer> {
  const config = readConfig(files);
  const found: FoundTemplate | null =
    template === null ? findChatTemplate(files, config) : { path: '--chat-template', text: template };
  const chatTemplate =
    found === null
      ? null
      : new JinjaChatTemplate(found.text, specialTokens(config), {
          sourceForTools: found.forTools ?? null,
          contentFormat,
          imageLine,
        });
  if (chatTemplate !== null && chatTemplate.defect !== null) {
    onWarning?.(
      `${found?.path}: the chat template does not compile: ${chatTemplate.defect}; chats will be refused, other prompts ` +
        'are served; --chat-template takes another template',
    );
  }
  const info = { tokenizer_class: config.tokenizer_class ?? null, ...specialTokens(config) };
  return { tokenizer: await readTokenizer(files, config), chatTemplate, info };
}

function expectedForms({ path }: ModelFiles): string {
  return isGgufPath(path)
    ? 'one in its metadata (tokenizer.ggml.model)'
    : 'tokenizer.json, tokenizer.model, or vocab.json with merges.txt';
}

async function readTokenizer(files: ModelFiles, config: TokenizerConfig): Promise<Tokenizer> {
  const found = files.read('tokenizer.json') ?? buildTokenizerJson(files);
  if (found === null) {
    throw new ModelLoadError(
      `${files.path} holds no tokenizer: expected ${expectedForms(files)}; use --tokenizer to take that of another model, or ` +
        '--skip-tokenizer-init to serve token ids only',
    );
  }
  const { path } = found;
  const probing = probeTokenizer(found.text);
  const file = parseModelJson(found, tokenizerFile, 'an object with "model", "added_tokens" and "decoder"');
  const hasDecoder = file.decoder !== undefined && file.decoder !== null;
  const decoder = hasDecoder ? decoderSteps(file.decoder) : null;
  if (hasDecoder && decoder === null) {
    const type = z.object({ type: z.string() }).safeParse(file.decoder);
    throw new ModelLoadError(
      `${path}: decoder ${type.data?.type ?? preview(file.decoder)} cannot be read: expected ${DECODER_NAMES}`,
    );
  }
  const { text, addedTokens } = withNamedTokens(
    { text: found.text, addedTokens: file.added_tokens },
    config.added_tokens_decoder,
  );
  const specials = addedTokens.filter((token) => token.special).map((token) => token.content);
  const [{ Tokenizer: NativeTokenizer }, causeOfDeath] = await Promise.all([import('tokenizers'), probing]);
  if (causeOfDeath !== null) {
    throw new ModelLoadError(
      `${path} is damaged: the tokenizer library fails on it (${causeOfDeath}); fetch the model again`,
    );
  }
  try {
    const native = NativeTokenizer.fromString(text);
    const vocab = native.getVocab(true);
    expectIds(vocab);
    const longest = Object.keys(vocab).reduce((most, { length }) => Math.max(most, length), 1);
    return new HfTokenizer({
      source: text,
      native,
      vocab,
      maxCharsPerToken: maxCharsPerToken({ ...file, added_tokens: addedTokens }, longest),
      decoder,
      addedTokens: new Set(addedTokens.map((token) => token.content)),
      specialTokens: new Set(specials),
      eosToken: config.eos_token ?? null,
    });
  } catch (cause) {
    throw new ModelLoadError(`${path} is no tokenizer that can be read: ${messageOf(cause)}`, { cause });
  }
}

/** @throws RangeError for a token whose id is beyond any table. */
function expectIds(vocab: Readonly<Record<string, number>>): void {
  const wrong = Object.keys(vocab).find((text) => vocab[text]! >= MOST_IDS);
  if (wrong === undefined) return;
  throw new RangeError(
    `the token ${preview(wrong)} has the id ${vocab[wrong]}, expected ids below ${MOST_IDS}; fetch the model again`,
  );
}

function readConfig(files: ModelFiles): TokenizerConfig {
  const file = files.read('tokenizer_config.json');
  if (file === null) return {};
  return parseModelJson(file, tokenizerConfig, 'an object with "bos_token", "eos_token" and "chat_template"');
}

interface FoundTemplate extends ModelText {
  /** Some models have another template for conversations with tools. */
  readonly forTools?: string | undefined;
}

/** A file of its own wins over the one in tokenizer_config.json. */
function findChatTemplate(files: ModelFiles, config: TokenizerConfig): FoundTemplate | null {
  const jinja = files.read('chat_template.jinja');
  if (jinja !== null) return jinja;
  if (config.chat_template) {
    return defaultTemplate(`${files.path}/tokenizer_config.json`, config.chat_template);
  }
  const json = files.read('chat_template.json');
  if (json === null) return null;
  const { chat_template } = parseModelJson(json, chatTemplateFile, 'an object with "chat_template"');
  return defaultTemplate(json.path, chat_template);
}

function defaultTemplate(path: string, template: string | z.output<typeof namedTemplates>): FoundTemplate {
  if (typeof template === 'string') return { path, text: template };
  const named =
    template.find(({ name }) => name === 'default') ?? (template.length === 1 ? template[0] : null);
  if (!named) {
    const names = template.map(({ name }) => name).join(', ');
    throw new ModelLoadError(
      `${path}: chat_template has the templates ${names}, expected one named "default"`,
    );
  }
  return { path, text: named.template, forTools: template.find(({ name }) => name === 'tool_use')?.template };
}

function specialTokens(config: TokenizerConfig): SpecialTokens {
  const { chat_template: _, added_tokens_decoder: __, tokenizer_class: ___, ...tokens } = config;
  return Object.fromEntries(Object.entries(tokens).filter((entry): entry is [string, string] => !!entry[1]));
}
