// From a vocabulary of byte-level BPE and its merges, as vocab.json with merges.txt and GGUF files have it, to a tokenizer.json.

import {
  type AddedTokenDocument,
  type PairTemplate,
  templateProcessor,
  withAddedIds,
} from './sentencepiece-document.ts';

interface ByteLevelVocabulary {
  readonly ids: ReadonlyMap<string, number>;
  /** The best first. */
  readonly merges: readonly (readonly [string, string])[];
  readonly addedTokens: readonly AddedTokenDocument[];
  /** How text is cut into words before any merge: a regular expression; null is that of GPT-2. */
  readonly wordPattern: string | null;
  /** Whether characters are composed first, as some families do. */
  readonly composes?: boolean;
  /** A space goes before the first word. */
  readonly addsPrefixSpace?: boolean;
  /** A word that is a token is that token, whatever the merges say. */
  readonly ignoresMerges?: boolean;
  /** Texts of tokens that go before every text, and behind it. */
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  readonly pair?: PairTemplate;
}

/** The content of a tokenizer.json, as the `tokenizers` package reads it. */
export function byteLevelDocument(vocabulary: ByteLevelVocabulary): object {
  const { ids, merges, addedTokens, wordPattern, composes = false, prefix = [], suffix = [] } = vocabulary;
  const byteLevel = (use_regex: boolean) => ({
    type: 'ByteLevel',
    add_prefix_space: vocabulary.addsPrefixSpace ?? false,
    trim_offsets: true,
    use_regex,
  });
  const cut = { type: 'Split', pattern: { Regex: wordPattern }, behavior: 'Isolated', invert: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens,
    normalizer: composes ? { type: 'NFC' } : null,
    pre_tokenizer:
      wordPattern === null ? byteLevel(true) : { type: 'Sequence', pretokenizers: [cut, byteLevel(false)] },
    post_processor: templateProcessor(prefix, suffix, withAddedIds(ids, addedTokens), vocabulary.pair),
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: vocabulary.ignoresMerges ?? false,
      vocab: Object.fromEntries(ids),
      merges,
    },
  };
}
