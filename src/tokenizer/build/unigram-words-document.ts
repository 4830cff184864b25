// From a vocabulary with scores to the tokenizer.json of XLM-RoBERTa and its kin: texts are cut at their spaces, and each word by itself into
// the pieces that are the most likely ones.

import {
  addedPiece,
  charsMapNormalizer,
  type PairTemplate,
  type Piece,
  type SentencePieceVocabulary,
  templateProcessor,
  unigramModel,
} from './sentencepiece-document.ts';

interface UnigramWords
  extends Pick<SentencePieceVocabulary, 'pieces' | 'hasByteFallback' | 'charsMap' | 'addsDummyPrefix'> {
  /** Texts of tokens that go before every text, behind it, and between two. */
  readonly prefix: readonly string[];
  readonly suffix: readonly string[];
  readonly pair: PairTemplate;
}

/** The content of a tokenizer.json, as the `tokenizers` package reads it. */
export function unigramWordsDocument({
  charsMap,
  prefix,
  suffix,
  pair,
  ...vocabulary
}: UnigramWords): object {
  const pieces = withoutUnused(vocabulary.pieces);
  const words = {
    type: 'Metaspace',
    replacement: '▁',
    prepend_scheme: vocabulary.addsDummyPrefix ? 'always' : 'never',
    split: true,
  };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: pieces.flatMap((piece, id) => addedPiece(piece, id, vocabulary.addsDummyPrefix)),
    normalizer: charsMapNormalizer(charsMap),
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, words] },
    post_processor: templateProcessor(
      prefix,
      suffix,
      new Map(pieces.map(({ text }, id) => [text, id])),
      pair,
    ),
    decoder: words,
    model: unigramModel({ pieces, hasByteFallback: vocabulary.hasByteFallback }),
  };
}

/**
 * Pieces that fill a vocabulary up are in no text: a space is in no word. What an unknown character costs follows from the lowest score, which is
 * not theirs.
 */
function withoutUnused(pieces: readonly Piece[]): Piece[] {
  const lowest = pieces.reduce((low, { type, score }) => (type === 'unused' ? low : Math.min(low, score)), 0);
  return pieces.map((piece) =>
    piece.type === 'unused' ? { ...piece, text: ` ${piece.text}`, score: lowest } : piece,
  );
}
