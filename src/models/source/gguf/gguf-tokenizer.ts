// From the vocabulary in a GGUF file to the files that the original's tokenizer would have: tokenizer.json, tokenizer_config.json, and
// the tokens that end an answer.

import { ModelLoadError } from '../../../errors.ts';
import { byteLevelDocument } from '../../../tokenizer/build/byte-level-document.ts';
import {
  type AddedTokenDocument,
  addedToken,
  MOST_PIECE_LENGTH,
  type PairTemplate,
  PIECE_TYPES,
  type Piece,
  type PieceType,
  type SentencePieceVocabulary,
  sentencePieceDocument,
} from '../../../tokenizer/build/sentencepiece-document.ts';
import { unigramWordsDocument } from '../../../tokenizer/build/unigram-words-document.ts';
import { CONTINUES, wordPieceDocument } from '../../../tokenizer/build/word-piece-document.ts';
import { preview } from '../../../util/preview.ts';
import { findGgufArchitecture } from './gguf-config.ts';
import type { GgufKeys } from './gguf-keys.ts';
import { findPreTokenizer, type PreTokenizer } from './pre-tokenizers.ts';

/** The kinds of vocabularies by their names in the files. */
const KINDS = ['gpt2', 'llama', 'gemma4', 'bert', 't5'] as const;
type Kind = (typeof KINDS)[number];

interface Vocabulary {
  readonly kind: Kind;
  /** [ids] */
  readonly tokens: readonly string[];
  readonly types: readonly PieceType[];
}

const TOKENS = 'tokenizer.ggml.tokens';
const MERGES = 'tokenizer.ggml.merges';

/** Some converters do not list the names of a file's templates. */
const TEMPLATE_FOR_TOOLS = 'tool_use';

/** Texts by which control tokens end a turn, where a file names one end token only. */
const ENDS_OF_TURNS: readonly string[] = [
  '<|eot_id|>',
  '<|eom_id|>',
  '<|im_end|>',
  '<end_of_turn>',
  '<turn|>',
  '<|tool_response>',
  '<eos>',
  '<|endoftext|>',
  '<|return|>',
  '<|call|>',
  '<|assistant_end|>',
  '<|tools_suffix|>',
];
/** One more, but where a turn has several messages. */
const END_OF_MESSAGE = '<|end|>';

/**
 * The content of tokenizer.json; null where the file has no vocabulary.
 * @throws ModelLoadError where it is of a kind that svc does not tokenise with, or its lists do not fit together.
 */
export function ggufTokenizer(keys: GgufKeys): object | null {
  const vocabulary = readVocabulary(keys);
  if (vocabulary === null) return null;
  const kinds = {
    gpt2: byteLevel,
    llama: sentencePiece,
    gemma4: mergedPieces,
    bert: wordPiece,
    t5: unigramWords,
  };
  return kinds[vocabulary.kind](keys, vocabulary);
}

/** The content of tokenizer_config.json: the special tokens that templates name. */
export function ggufTokenizerConfig(keys: GgufKeys): object {
  const textOf = (name: string): string | null => textOfId(keys, `tokenizer.ggml.${name}_token_id`);
  return {
    bos_token: textOf('bos'),
    eos_token: textOf('eos'),
    unk_token: textOf('unknown'),
    pad_token: textOf('padding'),
  };
}

/** The content of chat_template.json; null where the file has no template. */
export function ggufChatTemplates(keys: GgufKeys): object | null {
  const key = 'tokenizer.chat_template';
  const unnamed = keys.text(key);
  const names = new Set([...(keys.strings('tokenizer.chat_templates') ?? []), TEMPLATE_FOR_TOOLS]);
  const named = [...names].flatMap((name) => {
    const template = keys.text(`${key}.${name}`);
    return template === null ? [] : [{ name, template }];
  });
  const all = unnamed === null ? named : [...named, { name: 'default', template: unnamed }];
  return all.length === 0 ? null : { chat_template: all };
}

/** The content of generation_config.json. */
export function ggufGenerationConfig(keys: GgufKeys): object {
  const named = ['eos', 'eot', 'eom'].map((name) => keys.number(`tokenizer.ggml.${name}_token_id`));
  const ids = [...named.filter((id) => id !== null), ...endsOfTurns(keys)];
  const sampling = (name: string) => keys.number(`general.sampling.${name}`);
  return {
    eos_token_id: [...new Set(ids)],
    suppress_tokens: keys.numbers('tokenizer.ggml.suppress_tokens'),
    temperature: sampling('temp'),
    top_k: sampling('top_k'),
    top_p: sampling('top_p'),
    min_p: sampling('min_p'),
    repetition_penalty: sampling('penalty_repeat'),
  };
}

function endsOfTurns(keys: GgufKeys): number[] {
  const { tokens = [], types = [] } = readVocabulary(keys) ?? {};
  const idOf = (text: string): number =>
    tokens.findIndex((token, id) => token === text && isAdded(types[id]));
  const texts = idOf('<|return|>') < 0 ? [...ENDS_OF_TURNS, END_OF_MESSAGE] : ENDS_OF_TURNS;
  return texts.map(idOf).filter((id) => id >= 0);
}

function isAdded(type: PieceType | undefined): boolean {
  return type === 'control' || type === 'user-defined' || type === 'unknown';
}

function readVocabulary(keys: GgufKeys): Vocabulary | null {
  const name = keys.text('tokenizer.ggml.model');
  if (name === null || name === 'no_vocab') return null;
  const kind = KINDS.find((one) => one === name);
  if (kind === undefined) {
    throw new ModelLoadError(
      `${keys.path}: tokenizers of the kind ${preview(name)} (tokenizer.ggml.model) are not read, ${KINDS.join(', ')} are: give ` +
        "the original's with --tokenizer <its folder, or its name on the hub>",
    );
  }
  const tokens = keys.strings(TOKENS) ?? [];
  const typeNumbers = ofSameLength(keys, 'tokenizer.ggml.token_type', tokens.length) ?? tokens.map(() => 1);
  const types = typeNumbers.map((number) => PIECE_TYPES[number] ?? 'normal');
  return { kind, tokens, types };
}

function ofSameLength(keys: GgufKeys, key: string, length: number): number[] | null {
  const values = keys.numbers(key);
  if (values === null || values.length === length) return values;
  throw new ModelLoadError(
    `${keys.path}: ${key} must have ${length} items as ${TOKENS} has, it has ${values.length}; fetch the file again`,
  );
}

function byteLevel(keys: GgufKeys, { tokens, types }: Vocabulary): object {
  const { preTokenizer: usual = 'default', joinsPairs = false } = findGgufArchitecture(keys);
  const words = findPreTokenizer(keys.path, keys.text('tokenizer.ggml.pre') ?? usual);
  const around = aroundTexts(keys, words.addsBos ?? false);
  return {
    ...byteLevelDocument({
      ids: new Map(tokens.map((text, id) => [text, id])),
      merges: readMerges(keys) ?? [],
      addedTokens: addedTokensOf({ tokens, types }),
      wordPattern: null,
      composes: words.composes ?? false,
      ignoresMerges: words.ignoresMerges ?? false,
      ...around,
      // RoBERTa, whose vocabulary is not BERT's, has two ends between two texts.
      ...(joinsPairs ? { pair: pairOf(around.suffix, keys.architecture === 'bert' ? 2 : 1) } : {}),
    }),
    pre_tokenizer: preTokenizer(words, keys.flag('tokenizer.ggml.add_space_prefix') ?? false),
  };
}

function addedTokensOf({ tokens, types }: Pick<Vocabulary, 'tokens' | 'types'>): AddedTokenDocument[] {
  return tokens.flatMap((text, id) => {
    const type = types[id];
    return isAdded(type) ? [addedToken(id, text, type !== 'user-defined')] : [];
  });
}

/** The best first; null where the file lists none. */
function readMerges(keys: GgufKeys): [string, string][] | null {
  return keys.strings(MERGES)?.map((merge) => readMerge(keys.path, merge)) ?? null;
}

/** Its two tokens with a space between them; the first may begin with one. */
function readMerge(path: string, merge: string): [string, string] {
  const space = merge.indexOf(' ', 1);
  if (space > 0) return [merge.slice(0, space), merge.slice(space + 1)];
  throw new ModelLoadError(
    `${path}: ${preview(merge)} in ${MERGES} is not two tokens with a space between them; fetch the file again`,
  );
}

function preTokenizer({ cuts, cutsAsGpt2 = false }: PreTokenizer, add_prefix_space: boolean): object {
  const steps = cuts.map((Regex) => ({
    type: 'Split',
    pattern: { Regex },
    behavior: 'Isolated',
    invert: false,
  }));
  const bytes = { type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex: cutsAsGpt2 };
  return { type: 'Sequence', pretokenizers: [...steps, bytes] };
}

function sentencePiece(keys: GgufKeys, vocabulary: Vocabulary): object {
  return piecesDocument(keys, { pieces: scoredPieces(keys, vocabulary), addsDummyPrefix: true });
}

/** @throws ModelLoadError where there is not a score for each token, or one is far too long. */
function scoredPieces(keys: GgufKeys, { tokens, types }: Vocabulary): Piece[] {
  const key = 'tokenizer.ggml.scores';
  const scores = keys.expect(key, ofSameLength(keys, key, tokens.length));
  const long = tokens.find((text) => text.length > MOST_PIECE_LENGTH);
  if (long !== undefined) {
    throw new ModelLoadError(
      `${keys.path}: ${TOKENS} has a token of ${long.length} characters, expected at most ${MOST_PIECE_LENGTH}: ${preview(long)}; ` +
        'fetch the file again',
    );
  }
  return tokens.map((text, id) => ({ text, score: scores[id]!, type: types[id]! }));
}

/** Of XLM-RoBERTa and its kin. */
function unigramWords(keys: GgufKeys, vocabulary: Vocabulary): object {
  const maskId = keys.number('tokenizer.ggml.mask_token_id');
  // Converters know its id, but not that SentencePiece's own file lacks it.
  const pieces = scoredPieces(keys, vocabulary).map(
    (piece, id): Piece =>
      id === maskId && piece.type === 'unused' ? { text: '<mask>', score: 0, type: 'control' } : piece,
  );
  const around = aroundTexts(keys, true, true);
  const charsMap = keys.numbers('tokenizer.ggml.precompiled_charsmap');
  return unigramWordsDocument({
    pieces,
    hasByteFallback: pieces.some(({ type }) => type === 'byte'),
    charsMap: charsMap && Uint8Array.from(charsMap),
    addsDummyPrefix: keys.flag('tokenizer.ggml.add_space_prefix') ?? true,
    ...around,
    pair: pairOf(around.suffix, 2),
  });
}

/** What a file writes before a piece that begins a word, where BERT's vocabulary writes ## before those that do not. */
const BEGINS = '▁';

function wordPiece(keys: GgufKeys, { tokens, types }: Vocabulary): object {
  const texts = tokens.map((token, id) => {
    if (token.startsWith(BEGINS)) return token.slice(BEGINS.length);
    // Older converters left the tokens that are free as they were, too.
    return isAdded(types[id]) || /^\[.+\]$/.test(token) ? token : `${CONTINUES}${token}`;
  });
  const ids = new Map(texts.map((text, id) => [text, id]));
  const special = (usual: string, ...names: readonly string[]): string => {
    const found = names.map((name) => textOfId(keys, `tokenizer.ggml.${name}_token_id`, texts));
    const text = found.find((one) => one !== null) ?? usual;
    if (ids.has(text)) return text;
    throw new ModelLoadError(
      `${keys.path}: ${usual} is no token, and the key tokenizer.ggml.${names[0]}_token_id is missing; convert the model again`,
    );
  };
  const suffix = [special('[SEP]', 'seperator', 'eos')];
  return wordPieceDocument({
    ids,
    addedTokens: addedTokensOf({ tokens: texts, types }),
    unknown: special('[UNK]', 'unknown'),
    lowersCase: keys.flag('tokenizer.ggml.normalizer.lowercase') ?? !hasCapitals({ tokens: texts, types }),
    stripsAccents: keys.flag('tokenizer.ggml.normalizer.strip_accents'),
    prefix: [special('[CLS]', 'cls', 'bos')],
    suffix,
    pair: { between: suffix, secondType: 1 },
  });
}

/** Where the file does not say, a vocabulary without capitals is of a tokenizer that lowers them. */
function hasCapitals({ tokens, types }: Pick<Vocabulary, 'tokens' | 'types'>): boolean {
  return tokens.some((token, id) => !isAdded(types[id]) && /^(?!\[.+\]$).*[A-Z]/.test(token));
}

/** Of Gemma 4: pieces whose scores say nothing, with a list of their merges. */
function mergedPieces(keys: GgufKeys, { tokens, types }: Vocabulary): object {
  const unknownId = keys.number('tokenizer.ggml.unknown_token_id');
  const typeOf = (id: number): PieceType => {
    if (id === unknownId) return 'unknown';
    // Marks of calls and thoughts are said to be texts of the user, so that engines show them; they are special as all others are.
    return types[id] === 'user-defined' ? 'control' : types[id]!;
  };
  return piecesDocument(keys, {
    pieces: tokens.map((text, id) => ({ text, score: 0, type: typeOf(id) })),
    merges: keys.expect(MERGES, readMerges(keys)),
    addsDummyPrefix: false,
  });
}

/** @param vocabulary of which the file may say whether a space goes before the first word. */
function piecesDocument(
  keys: GgufKeys,
  vocabulary: Pick<SentencePieceVocabulary, 'pieces' | 'merges' | 'addsDummyPrefix'>,
): object {
  return sentencePieceDocument(
    {
      ...vocabulary,
      algorithm: 'bpe',
      hasByteFallback: vocabulary.pieces.some(({ type }) => type === 'byte'),
      charsMap: null,
      addsDummyPrefix: keys.flag('tokenizer.ggml.add_space_prefix') ?? vocabulary.addsDummyPrefix,
      removesExtraSpaces: keys.flag('tokenizer.ggml.remove_extra_whitespaces') ?? false,
    },
    { ...aroundTexts(keys, true), prefixesEachPart: true },
  );
}

/** What goes before and behind every text. */
function aroundTexts(
  keys: GgufKeys,
  addsBos: boolean,
  addsEos = false,
): { prefix: string[]; suffix: string[] } {
  const textOf = (name: string): string[] => {
    const text = textOfId(keys, `tokenizer.ggml.${name}_token_id`);
    return text === null ? [] : [text];
  };
  return {
    prefix: (keys.flag('tokenizer.ggml.add_bos_token') ?? addsBos) ? textOf('bos') : [],
    suffix: (keys.flag('tokenizer.ggml.add_eos_token') ?? addsEos) ? textOf('eos') : [],
  };
}

/** What ends a text, so many times, between two of which one kind is told from the other by nothing else. */
function pairOf(suffix: readonly string[], times: 1 | 2): PairTemplate {
  return { between: times === 1 ? suffix : [...suffix, ...suffix], secondType: 0 };
}

/** The token whose id the key names; null where there is none. */
function textOfId(keys: GgufKeys, key: string, tokens = keys.strings(TOKENS)): string | null {
  const id = keys.number(key);
  if (id === null) return null;
  const text = tokens?.[id];
  if (text !== undefined) return text;
  throw new ModelLoadError(`${keys.path}: ${key} is ${id}, which is no token; fetch the file again`);
}
