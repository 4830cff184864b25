// From a vocabulary with scores and types, as SentencePiece and GGUF files have it, to the tokenizer.json that tokenises the same.

/** Types by their numbers in the files. */
export const PIECE_TYPES: Readonly<Record<number, PieceType>> = {
  1: 'normal',
  2: 'unknown',
  3: 'control',
  4: 'user-defined',
  5: 'unused',
  6: 'byte',
};

/**
 * Characters of a piece. All ways to make it of two others are tried, which takes time by the square of its length; SentencePiece
 * itself makes none of more than 16 unless told to.
 */
export const MOST_PIECE_LENGTH = 512;

export type PieceType = 'normal' | 'unknown' | 'control' | 'user-defined' | 'unused' | 'byte';

/** A token; its id is its place in the list. */
export interface Piece {
  readonly text: string;
  /** Higher is better: of two merges (BPE) or two ways to cut a text (unigram). */
  readonly score: number;
  readonly type: PieceType;
}

export interface SentencePieceVocabulary {
  readonly algorithm: 'bpe' | 'unigram';
  readonly pieces: readonly Piece[];
  /** Of BPE, the best first; left out, every way to make a piece of two others, by the scores. */
  readonly merges?: readonly (readonly [string, string])[];
  /** What no piece can spell becomes the tokens <0x00> to <0xFF>. */
  readonly hasByteFallback: boolean;
  /** SentencePiece's compiled rules of what characters are replaced by; null leaves text as it is. */
  readonly charsMap: Uint8Array | null;
  /** A space goes before the first word. */
  readonly addsDummyPrefix: boolean;
  /** Spaces at both ends go, and runs of them become one. */
  readonly removesExtraSpaces: boolean;
}

export interface AddedTokenDocument {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean;
}

interface DocumentOptions {
  /** Texts of tokens that go before every text, and behind it. */
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
  /** Whether a space goes before each part of a text behind an added token, too, and not only before its first word. */
  readonly prefixesEachPart?: boolean;
  /** Tokens behind those of the vocabulary. */
  readonly addedTokens?: readonly AddedTokenDocument[];
}

/** What SentencePiece writes for a space. */
const SPACE = '▁';

/** The content of a tokenizer.json, as the `tokenizers` package reads it. */
export function sentencePieceDocument(
  vocabulary: SentencePieceVocabulary,
  { prefix = [], suffix = [], prefixesEachPart = false, addedTokens = [] }: DocumentOptions = {},
): object {
  const { pieces, addsDummyPrefix } = vocabulary;
  // Where spaces at the beginning of a text are removed, it can no longer be told which part is the first.
  const hasPrefixes = addsDummyPrefix && (prefixesEachPart || vocabulary.removesExtraSpaces);
  const ids = new Map(pieces.map(({ text }, id) => [text, id]));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [...pieces.flatMap((piece, id) => addedPiece(piece, id, hasPrefixes)), ...addedTokens],
    normalizer: normalizer(vocabulary, hasPrefixes),
    pre_tokenizer:
      addsDummyPrefix && !hasPrefixes
        ? { type: 'Metaspace', replacement: SPACE, prepend_scheme: 'first', split: false }
        : null,
    post_processor: templateProcessor(prefix, suffix, withAddedIds(ids, addedTokens)),
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'Replace', pattern: { String: SPACE }, content: ' ' },
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        ...(addsDummyPrefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
      ],
    },
    model: vocabulary.algorithm === 'bpe' ? bpeModel(vocabulary) : unigramModel(vocabulary),
  };
}

/** Pieces that are never merged: they are found in the text before it is cut. */
export function addedPiece({ text, type }: Piece, id: number, hasPrefixes: boolean): AddedTokenDocument[] {
  if (type === 'unknown' || type === 'control') return [addedToken(id, text, true)];
  if (type !== 'user-defined') return [];
  // One with a space in it is found where spaces are written as in the vocabulary, unless that would put one before it.
  return [{ ...addedToken(id, text, false), normalized: text.includes(SPACE) && !hasPrefixes }];
}

export function addedToken(id: number, content: string, special: boolean): AddedTokenDocument {
  const nothing = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  return { id, content, special, ...nothing };
}

/** Null where all characters stay. */
export function charsMapNormalizer(charsMap: Uint8Array | null): object | null {
  if (charsMap === null || charsMap.length === 0) return null;
  return { type: 'Precompiled', precompiled_charsmap: Buffer.from(charsMap).toString('base64') };
}

function normalizer({ charsMap, removesExtraSpaces }: SentencePieceVocabulary, hasPrefixes: boolean): object {
  const mapped = charsMapNormalizer(charsMap);
  const steps = [
    ...(mapped === null ? [] : [mapped]),
    ...(removesExtraSpaces
      ? [
          // Spaces alone: a Strip would take line breaks with them.
          { type: 'Replace', pattern: { Regex: '\\A +| +\\z' }, content: '' },
          { type: 'Replace', pattern: { Regex: ' {2,}' }, content: ' ' },
        ]
      : []),
    ...(hasPrefixes ? [{ type: 'Prepend', prepend: SPACE }] : []),
    { type: 'Replace', pattern: { String: ' ' }, content: SPACE },
  ];
  return { type: 'Sequence', normalizers: steps };
}

/** How two texts are read together. */
export interface PairTemplate {
  /** Texts of tokens between the two. */
  readonly between: readonly string[];
  /** The kind of the tokens of the second. */
  readonly secondType: 0 | 1;
}

/** The ids of a vocabulary by their texts, and those of the tokens beside it. */
export function withAddedIds(
  ids: ReadonlyMap<string, number>,
  addedTokens: readonly AddedTokenDocument[],
): ReadonlyMap<string, number> {
  return new Map([...ids, ...addedTokens.map(({ content, id }) => [content, id] as const)]);
}

/**
 * Puts tokens around every text; null where there are none.
 * @param ids of these tokens at least.
 * @param pair left out: two texts are one behind the other, each with what is around it.
 */
export function templateProcessor(
  prefix: readonly string[],
  suffix: readonly string[],
  ids: ReadonlyMap<string, number>,
  pair?: PairTemplate,
): object | null {
  const around = [...prefix, ...suffix];
  if (around.length === 0) return null;
  const special = (tokens: readonly string[], type_id: number) =>
    tokens.map((id) => ({ SpecialToken: { id, type_id } }));
  const text = (id: string, type_id: number) => ({ Sequence: { id, type_id } });
  const beginning = [...special(prefix, 0), text('A', 0)];
  const middle = pair ? special(pair.between, 0) : [...special(suffix, 0), ...special(prefix, 1)];
  const type = pair?.secondType ?? 1;
  const tokens = around.map((id) => [id, { id, ids: [ids.get(id)], tokens: [id] }]);
  return {
    type: 'TemplateProcessing',
    single: [...beginning, ...special(suffix, 0)],
    pair: [...beginning, ...middle, text('B', type), ...special(suffix, type)],
    special_tokens: Object.fromEntries(tokens),
  };
}

export function unigramModel({
  pieces,
  hasByteFallback,
}: Pick<SentencePieceVocabulary, 'pieces' | 'hasByteFallback'>): object {
  const unknown = pieces.findIndex(({ type }) => type === 'unknown');
  return {
    type: 'Unigram',
    unk_id: unknown < 0 ? null : unknown,
    vocab: pieces.map(({ text, score }) => [text, score]),
    byte_fallback: hasByteFallback,
  };
}

function bpeModel({ pieces, merges = mergesOf(pieces), hasByteFallback }: SentencePieceVocabulary): object {
  return {
    type: 'BPE',
    dropout: null,
    unk_token: pieces.find(({ type }) => type === 'unknown')?.text ?? null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: true,
    byte_fallback: hasByteFallback,
    ignore_merges: false,
    vocab: Object.fromEntries(pieces.map(({ text }, id) => [text, id])),
    merges,
  };
}

interface Merge {
  readonly left: string;
  readonly right: string;
  readonly score: number;
}

/** Every way to make a piece of two others; SentencePiece makes the piece with the best score first. */
function mergesOf(pieces: readonly Piece[]): [string, string][] {
  const ids = new Map<string, number>();
  for (const [id, { text, type }] of pieces.entries()) {
    if (type === 'normal' || type === 'user-defined') ids.set(text, id);
  }
  const merges: Merge[] = [];
  for (const text of ids.keys()) {
    const { score } = pieces[ids.get(text)!]!;
    const ways: Merge[] = [];
    for (let cut = 1; cut < text.length; cut++) {
      const [left, right] = [text.slice(0, cut), text.slice(cut)];
      if (ids.has(left) && ids.has(right)) ways.push({ left, right, score });
    }
    merges.push(
      ...ways.sort((a, b) => ids.get(a.left)! - ids.get(b.left)! || ids.get(a.right)! - ids.get(b.right)!),
    );
  }
  return merges.sort((a, b) => b.score - a.score).map(({ left, right }) => [left, right]);
}
