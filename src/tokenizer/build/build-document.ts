// The tokenizer.json of a model that brings none: made of its tokenizer.model, or of vocab.json and merges.txt.

import * as z from 'zod';
import { ModelLoadError } from '../../errors.ts';
import { type ModelText, parseModelJson } from '../../util/model-file.ts';
import { type ModelFiles, SENTENCEPIECE_FILE } from '../../util/model-files.ts';
import { byteLevelDocument } from './byte-level-document.ts';
import {
  type AddedTokenDocument,
  addedToken,
  type Piece,
  type SentencePieceVocabulary,
  sentencePieceDocument,
} from './sentencepiece-document.ts';
import { readSentencePieceModel } from './sentencepiece-model.ts';

const token = z.union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)]);
const named = token.nullish();

/** What tokenizer_config.json and special_tokens_map.json say of how texts are tokenised. */
const settings = z.object({
  tokenizer_class: z.string().nullish(),
  add_bos_token: z.boolean().nullish(),
  add_eos_token: z.boolean().nullish(),
  add_prefix_space: z.boolean().nullish(),
  legacy: z.boolean().nullish(),
  bos_token: named,
  eos_token: named,
  unk_token: named,
  pad_token: named,
  additional_special_tokens: z.array(token).nullish(),
  added_tokens_decoder: z
    .record(z.string(), z.object({ content: z.string(), special: z.boolean().nullish() }))
    .nullish(),
});

type Settings = z.output<typeof settings>;

const ids = z.record(z.string(), z.int().nonnegative());

/** Qwen 2 and later cut texts into words in their own way. */
const QWEN2_WORDS =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Families that begin every text with a token where their files do not say. */
const BEGINS_TEXTS = /^(Code)?Llama|^Gemma|^InternLM|^Mistral/;

/**
 * The text of the tokenizer.json that tokenises as the model's files say; null where it brings neither kind.
 * @throws ModelLoadError naming the file that cannot be read, and what was expected.
 */
export function buildTokenizerJson(files: ModelFiles): ModelText | null {
  const model = files.readBytes(SENTENCEPIECE_FILE);
  if (model !== null) {
    const config = readSettings(files);
    const vocabulary = withReplaced(readSentencePieceModel(model.path, model.bytes), config);
    const known = new Set(vocabulary.pieces.map(({ text }) => text));
    const addedTokens = readAddedTokens(files, known, config);
    const document = sentencePieceDocument(vocabulary, {
      ...aroundTexts(config, withAdded(known, addedTokens), true),
      prefixesEachPart: config.legacy !== false && /^(Code)?Llama/.test(config.tokenizer_class ?? 'Llama'),
      addedTokens,
    });
    return { path: model.path, text: JSON.stringify(document) };
  }
  const vocab = files.read('vocab.json');
  const merges = files.read('merges.txt');
  if (vocab === null || merges === null) return null;
  return { path: vocab.path, text: JSON.stringify(byteLevel(files, vocab, merges)) };
}

/** Some put tokens of their chats in the place of those that the vocabulary keeps free. */
function withReplaced(
  vocabulary: SentencePieceVocabulary,
  { added_tokens_decoder: named }: Settings,
): SentencePieceVocabulary {
  if (!named) return vocabulary;
  const known = new Set(vocabulary.pieces.map(({ text }) => text));
  const pieces = vocabulary.pieces.map((piece, id): Piece => {
    const token = named[id];
    if (token === undefined || known.has(token.content)) return piece;
    return { ...piece, text: token.content, type: token.special ? 'control' : 'user-defined' };
  });
  return { ...vocabulary, pieces };
}

function byteLevel(files: ModelFiles, vocab: ModelText, merges: ModelText): object {
  const vocabulary = new Map(Object.entries(parseModelJson(vocab, ids, 'an object of ids by token')));
  const config = readSettings(files);
  const isQwen = /^Qwen/.test(config.tokenizer_class ?? '');
  const known = new Set(vocabulary.keys());
  const added = readAddedTokens(files, known, config);
  const ofVocabulary = specialTexts(config)
    .filter((text) => known.has(text))
    .map((text) => ({ ...addedToken(vocabulary.get(text)!, text, true), normalized: true }));
  return byteLevelDocument({
    ids: vocabulary,
    merges: readMerges(merges),
    addedTokens: [...ofVocabulary, ...added],
    wordPattern: isQwen ? QWEN2_WORDS : null,
    composes: isQwen,
    addsPrefixSpace: config.add_prefix_space ?? false,
    ...aroundTexts(config, withAdded(known, added), false),
  });
}

function withAdded(known: ReadonlySet<string>, added: readonly AddedTokenDocument[]): ReadonlySet<string> {
  return new Set([...known, ...added.map(({ content }) => content)]);
}

/** Two tokens a line; the first line may name the version. */
function readMerges({ path, text }: ModelText): [string, string][] {
  const lines = text.split('\n').map((line) => line.replace(/\r$/, ''));
  return lines.flatMap((line, index): [string, string][] => {
    if (line === '' || (index === 0 && line.startsWith('#version'))) return [];
    const [left, right, ...rest] = line.split(' ');
    if (left && right && rest.length === 0) return [[left, right]];
    throw new ModelLoadError(
      `${path}: line ${index + 1} is no merge: expected two tokens with a space between them`,
    );
  });
}

function readSettings(files: ModelFiles): Settings {
  const read = (text: ModelText | null): Settings => (text === null ? {} : parseModelJson(text, settings));
  return { ...read(files.read('special_tokens_map.json')), ...read(files.read('tokenizer_config.json')) };
}

function specialTexts(config: Settings): string[] {
  const { bos_token, eos_token, unk_token, pad_token, additional_special_tokens } = config;
  const texts = [bos_token, eos_token, unk_token, pad_token, ...(additional_special_tokens ?? [])];
  return [...new Set(texts.filter((text) => typeof text === 'string'))];
}

/** Those of added_tokens.json that the vocabulary does not have, in the order of their ids. */
function readAddedTokens(
  files: ModelFiles,
  known: ReadonlySet<string>,
  config: Settings,
): AddedTokenDocument[] {
  const file = files.read('added_tokens.json');
  if (file === null) return [];
  const specials = specialTexts(config);
  return Object.entries(parseModelJson(file, ids, 'an object of ids by token'))
    .filter(([text]) => !known.has(text))
    .sort(([, a], [, b]) => a - b)
    .map(([text, id]) => addedToken(id, text, specials.includes(text)));
}

/** What goes before and behind every text. */
function aroundTexts(
  { tokenizer_class, add_bos_token, add_eos_token, bos_token, eos_token }: Settings,
  known: ReadonlySet<string>,
  isSentencePiece: boolean,
): { prefix: string[]; suffix: string[] } {
  const begins = add_bos_token ?? (isSentencePiece && BEGINS_TEXTS.test(tokenizer_class ?? 'Llama'));
  const [begin, end] = [bos_token ?? '<s>', eos_token ?? '</s>'];
  return {
    prefix: begins && known.has(begin) ? [begin] : [],
    suffix: add_eos_token && known.has(end) ? [end] : [],
  };
}
