// The tokenizers of embedding models and rerankers, from the vocabulary in a GGUF file: WordPiece, and the pieces of XLM-RoBERTa.

import { ModelLoadError } from '../../../errors.ts';
import type { PairTemplate, Piece } from '../../../tokenizer/build/sentencepiece-document.ts';
import { unigramWordsDocument } from '../../../tokenizer/build/unigram-words-document.ts';
import { CONTINUES, wordPieceDocument } from '../../../tokenizer/build/word-piece-document.ts';
import type { GgufKeys } from './gguf-keys.ts';
import {
  addedTokensOf,
  aroundTexts,
  isAdded,
  type Pieces,
  scoredPieces,
  textOfId,
  type Vocabulary,
} from './gguf-vocabulary.ts';

/** The content of the tokenizer.json of XLM-RoBERTa and its kin. */
export function unigramWords(keys: GgufKeys, vocabulary: Vocabulary): object {
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

/** Which some converters took for pieces. */
const SPECIAL: readonly string[] = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];

/** The content of BERT's tokenizer.json. */
export function wordPiece(keys: GgufKeys, vocabulary: Vocabulary): object {
  const pieces = publishedPieces(vocabulary);
  const { tokens } = pieces;
  const ids = new Map(tokens.map((text, id) => [text, id]));
  const special = (usual: string, ...names: readonly string[]): string => {
    const found = names.map((name) => textOfId(keys, `tokenizer.ggml.${name}_token_id`, tokens));
    const text = found.find((one) => one !== null) ?? usual;
    if (ids.has(text)) return text;
    throw new ModelLoadError(
      `${keys.path}: ${usual} is no token, and the key tokenizer.ggml.${names[0]}_token_id is missing; convert the model again`,
    );
  };
  const suffix = [special('[SEP]', 'seperator', 'eos')];
  return wordPieceDocument({
    ids,
    addedTokens: addedTokensOf(pieces),
    unknown: special('[UNK]', 'unknown'),
    lowersCase: keys.flag('tokenizer.ggml.normalizer.lowercase') ?? !hasCapitals(pieces),
    stripsAccents: keys.flag('tokenizer.ggml.normalizer.strip_accents'),
    prefix: [special('[CLS]', 'cls', 'bos')],
    suffix,
    pair: { between: suffix, secondType: 1 },
  });
}

/** As BERT's own vocabulary writes them. */
function publishedPieces({ tokens, types }: Vocabulary): Pieces {
  const texts = tokens.map((token, id) => {
    if (token.startsWith(BEGINS)) return token.slice(BEGINS.length);
    // Older converters left the tokens that are free as they were, too.
    return isAdded(types[id]) || /^\[.+\]$/.test(token) ? token : `${CONTINUES}${token}`;
  });
  return { tokens: texts, types: types.map((type, id) => (SPECIAL.includes(texts[id]!) ? 'control' : type)) };
}

/** Where the file does not say, a vocabulary without capitals is of a tokenizer that lowers them. */
function hasCapitals({ tokens, types }: Pieces): boolean {
  return tokens.some((token, id) => !isAdded(types[id]) && /^(?!\[.+\]$).*[A-Z]/.test(token));
}

/** What ends a text is between two of them, so many times; their tokens are of one kind. */
export function pairOf(suffix: readonly string[], times: 1 | 2): PairTemplate {
  return { between: times === 1 ? suffix : [...suffix, ...suffix], secondType: 0 };
}
