// From a vocabulary of WordPiece (Schuster and Nakajima, 2012), as BERT's is, to a tokenizer.json.

import { type AddedTokenDocument, type PairTemplate, templateProcessor } from './sentencepiece-document.ts';

/** What begins a piece that continues a word. */
export const CONTINUES = '##';

interface WordPieceVocabulary {
  readonly ids: ReadonlyMap<string, number>;
  readonly addedTokens: readonly AddedTokenDocument[];
  /** The text of the token of words that no pieces make. */
  readonly unknown: string;
  readonly lowersCase: boolean;
  /** Null is as `lowersCase`. */
  readonly stripsAccents: boolean | null;
  /** Texts of tokens that go before every text, behind it, and between two. */
  readonly prefix: readonly string[];
  readonly suffix: readonly string[];
  readonly pair: PairTemplate;
}

/** Words of more characters are unknown ones. */
const MOST_WORD_LENGTH = 100;

/** The content of a tokenizer.json, as the `tokenizers` package reads it. */
export function wordPieceDocument({ ids, prefix, suffix, pair, ...vocabulary }: WordPieceVocabulary): object {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: vocabulary.addedTokens,
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: vocabulary.stripsAccents,
      lowercase: vocabulary.lowersCase,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: templateProcessor(prefix, suffix, ids, pair),
    decoder: { type: 'WordPiece', prefix: CONTINUES, cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: vocabulary.unknown,
      continuing_subword_prefix: CONTINUES,
      max_input_chars_per_word: MOST_WORD_LENGTH,
      vocab: Object.fromEntries(ids),
    },
  };
}
