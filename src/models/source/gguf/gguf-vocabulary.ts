// The vocabulary in a GGUF file: its tokens, what they are, and which of them are around a text.

import { ModelLoadError } from '../../../errors.ts';
import {
  type AddedTokenDocument,
  addedToken,
  MOST_PIECE_LENGTH,
  PIECE_TYPES,
  type Piece,
  type PieceType,
} from '../../../tokenizer/build/sentencepiece-document.ts';
import { preview } from '../../../util/preview.ts';
import type { GgufKeys } from './gguf-keys.ts';

/** The kinds of vocabularies by their names in the files. */
const KINDS = ['gpt2', 'llama', 'gemma4', 'bert', 't5'] as const;
type Kind = (typeof KINDS)[number];

export interface Vocabulary {
  readonly kind: Kind;
  /** [ids] */
  readonly tokens: readonly string[];
  readonly types: readonly PieceType[];
}

/** Of a vocabulary, by their ids. */
export type Pieces = Pick<Vocabulary, 'tokens' | 'types'>;

const TOKENS = 'tokenizer.ggml.tokens';

/**
 * Null where the file has none.
 * @throws ModelLoadError where it is of a kind that svc does not tokenise with, or its lists do not fit together.
 */
export function readVocabulary(keys: GgufKeys): Vocabulary | null {
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

/** Whether tokens of this type are found in a text before it is cut. */
export function isAdded(type: PieceType | undefined): boolean {
  return type === 'control' || type === 'user-defined' || type === 'unknown';
}

/** Of a tokenizer.json. */
export function addedTokensOf({ tokens, types }: Pieces): AddedTokenDocument[] {
  return tokens.flatMap((text, id) => {
    const type = types[id];
    return isAdded(type) ? [addedToken(id, text, type !== 'user-defined')] : [];
  });
}

/** @throws ModelLoadError where there is not a score for each token, or one is far too long. */
export function scoredPieces(keys: GgufKeys, { tokens, types }: Vocabulary): Piece[] {
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

/**
 * What goes before and behind every text.
 * @param addsBos whether it does where the file does not say, as `addsEos`
 */
export function aroundTexts(
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

/** The token whose id the key names; null where there is none. */
export function textOfId(keys: GgufKeys, key: string, tokens = keys.strings(TOKENS)): string | null {
  const id = keys.number(key);
  if (id === null) return null;
  const text = tokens?.[id];
  if (text !== undefined) return text;
  throw new ModelLoadError(`${keys.path}: ${key} is ${id}, which is no token; fetch the file again`);
}
