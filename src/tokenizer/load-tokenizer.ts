// Reads the tokenizer and the chat template of a model folder; the engine calls it at start.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { ModelLoadError } from '../errors.ts';
import { JinjaChatTemplate, type SpecialTokens } from './chat-template.ts';
import { DECODER_NAMES, decoderSpec, flattenDecoder } from './decoder-spec.ts';
import { HfTokenizer } from './hf-tokenizer.ts';
import { tokenReach } from './token-reach.ts';
import type { ChatTemplate, Tokenizer } from './tokenizer.ts';

export interface LoadedTokenizer {
  readonly tokenizer: Tokenizer;
  /** Null where the model brings none. */
  readonly chatTemplate: ChatTemplate | null;
}

/** A special token is written as its text or as an object around it. */
const specialToken = z
  .union([z.string(), z.object({ content: z.string() }).transform((token) => token.content)])
  .nullish();

const namedTemplates = z.array(z.object({ name: z.string(), template: z.string() }));

const tokenizerConfig = z.object({
  bos_token: specialToken,
  eos_token: specialToken,
  unk_token: specialToken,
  pad_token: specialToken,
  sep_token: specialToken,
  cls_token: specialToken,
  mask_token: specialToken,
  chat_template: z.union([z.string(), namedTemplates]).nullish(),
});

type TokenizerConfig = z.output<typeof tokenizerConfig>;

const tokenizerFile = z.object({
  model: z.looseObject({}),
  added_tokens: z.array(z.object({ content: z.string(), special: z.boolean() })).default([]),
  decoder: z.unknown().optional(),
});

const chatTemplateFile = z.object({ chat_template: z.union([z.string(), namedTemplates]) });

/**
 * Loads tokenizer.json, tokenizer_config.json and the chat template of `folder`.
 * @throws ModelLoadError naming the file and what was expected in it.
 */
export async function loadTokenizer(folder: string): Promise<LoadedTokenizer> {
  const config = await readConfig(folder);
  const template = await findChatTemplate(folder, config);
  return {
    tokenizer: await readTokenizer(folder, config),
    chatTemplate: template === null ? null : new JinjaChatTemplate(template, specialTokens(config)),
  };
}

async function readTokenizer(folder: string, config: TokenizerConfig): Promise<Tokenizer> {
  const path = join(folder, 'tokenizer.json');
  const text = await readOptional(path);
  if (text === null) {
    throw new ModelLoadError(
      `${path} is missing: expected the tokenizer in the Hugging Face format; to serve token ids only, use --skip-tokenizer-init`,
    );
  }
  const file = check(path, text, tokenizerFile, 'an object with "model", "added_tokens" and "decoder"');
  const decoder = decoderSpec.nullish().safeParse(file.decoder);
  if (!decoder.success) {
    const type = z.object({ type: z.string() }).safeParse(file.decoder);
    throw new ModelLoadError(
      `${path}: decoder ${type.data?.type ?? JSON.stringify(file.decoder)} cannot be read: expected ${DECODER_NAMES}`,
    );
  }
  const specials = file.added_tokens.filter((token) => token.special).map((token) => token.content);
  const { Tokenizer: NativeTokenizer } = await import('tokenizers');
  try {
    const native = NativeTokenizer.fromString(text);
    const longest = Object.keys(native.getVocab(true)).reduce(
      (most, { length }) => Math.max(most, length),
      1,
    );
    return new HfTokenizer({
      file: path,
      native,
      tokenReach: tokenReach(JSON.parse(text), longest),
      decoder: decoder.data ? flattenDecoder(decoder.data) : null,
      addedTokens: new Set(file.added_tokens.map((token) => token.content)),
      specialTokens: new Set(specials),
      eosToken: config.eos_token ?? null,
    });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ModelLoadError(`${path} is no tokenizer that can be read: ${reason}`, { cause });
  }
}

async function readConfig(folder: string): Promise<TokenizerConfig> {
  const path = join(folder, 'tokenizer_config.json');
  const text = await readOptional(path);
  if (text === null) return {};
  return check(path, text, tokenizerConfig, 'an object with "bos_token", "eos_token" and "chat_template"');
}

/** A file of its own wins over the one in tokenizer_config.json. */
async function findChatTemplate(folder: string, config: TokenizerConfig): Promise<string | null> {
  const jinja = await readOptional(join(folder, 'chat_template.jinja'));
  if (jinja !== null) return jinja;
  if (config.chat_template) {
    return defaultTemplate(join(folder, 'tokenizer_config.json'), config.chat_template);
  }
  const path = join(folder, 'chat_template.json');
  const json = await readOptional(path);
  if (json === null) return null;
  const file = check(path, json, chatTemplateFile, 'an object with "chat_template"');
  return defaultTemplate(path, file.chat_template);
}

function defaultTemplate(path: string, template: string | z.output<typeof namedTemplates>): string {
  if (typeof template === 'string') return template;
  const named =
    template.find(({ name }) => name === 'default') ?? (template.length === 1 ? template[0] : null);
  if (!named) {
    const names = template.map(({ name }) => name).join(', ');
    throw new ModelLoadError(
      `${path}: chat_template has the templates ${names}, expected one named "default"`,
    );
  }
  return named.template;
}

function specialTokens(config: TokenizerConfig): SpecialTokens {
  const { chat_template: _, ...tokens } = config;
  return Object.fromEntries(Object.entries(tokens).filter((entry): entry is [string, string] => !!entry[1]));
}

function check<T>(path: string, text: string, schema: z.ZodType<T>, expected: string): T {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ModelLoadError(`${path} is not valid JSON (${reason}): expected ${expected}`, { cause });
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = issue?.path.join('.') || 'top level';
  throw new ModelLoadError(`${path}: ${where}: ${issue?.message ?? 'invalid'}; expected ${expected}`);
}

async function readOptional(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return null;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ModelLoadError(`${path} cannot be read: ${reason}`, { cause });
  }
}
