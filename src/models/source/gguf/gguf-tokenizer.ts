// From the vocabulary in a GGUF file to the files that the original's tokenizer would have: tokenizer.json, tokenizer_config.json, and
// the tokens that end an answer.

import { ModelLoadError } from '../../../errors.ts';
import { byteLevelDocument } from '../../../tokenizer/build/byte-level-document.ts';
import {
  type PieceType,
  type SentencePieceVocabulary,
  sentencePieceDocument,
} from '../../../tokenizer/build/sentencepiece-document.ts';
import { preview } from '../../../util/preview.ts';
import { findGgufArchitecture } from './gguf-config.ts';
import { pairOf, unigramWords, wordPiece } from './gguf-encoder-tokenizers.ts';
import type { GgufKeys } from './gguf-keys.ts';
import {
  addedTokensOf,
  aroundTexts,
  isAdded,
  readVocabulary,
  scoredPieces,
  textOfId,
  type Vocabulary,
} from './gguf-vocabulary.ts';
import { findPreTokenizer, type PreTokenizer } from './pre-tokenizers.ts';

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
