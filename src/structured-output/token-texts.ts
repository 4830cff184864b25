// The bytes of the tokens of a vocabulary, special ones among them.

import { BEGIN, type SpecialTokens, symbolOf } from './special-tokens.ts';

/** Token i is bytes[starts[i]] up to bytes[starts[i + 1] - 1]; tokens without bytes are no text. */
export interface TokenTexts {
  readonly bytes: Uint8Array;
  readonly starts: Int32Array;
  /** They end a text and are none of it. */
  readonly endTokenIds: readonly number[];
  /** They have the bytes of `special-tokens.ts`. */
  readonly specialTokens: SpecialTokens;
}

/**
 * @param tokens by token id; null for tokens that are no text.
 * @param specialTokens those of them that marks may ask for.
 */
export function tokenTexts(
  tokens: readonly (Uint8Array | null)[],
  endTokenIds: readonly number[],
  specialTokens: SpecialTokens = new Map(),
): TokenTexts {
  const starts = new Int32Array(tokens.length + 1);
  for (const [id, bytes] of tokens.entries()) starts[id + 1] = starts[id]! + (bytes?.length ?? 0);
  const bytes = new Uint8Array(starts[tokens.length]!);
  for (const [id, token] of tokens.entries()) if (token !== null) bytes.set(token, starts[id]!);
  return withSpecialTokens({ bytes, starts, endTokenIds }, specialTokens);
}

/**
 * The texts with the special tokens among them, but for those that end a text. Tokens that could be taken for a part of one
 * are no text any more.
 */
export function withSpecialTokens(
  texts: Omit<TokenTexts, 'specialTokens'>,
  specialTokens: SpecialTokens,
): TokenTexts {
  const isEnd = new Set(texts.endTokenIds);
  const known = new Map(
    [...specialTokens].filter(([, id]) => id < texts.starts.length - 1 && !isEnd.has(id)),
  );
  const symbols = new Map([...known.values()].map((id) => [id, symbolOf(id)]));
  const size = texts.starts.length - 1;
  const starts = new Int32Array(size + 1);
  const bytes = new Uint8Array(texts.bytes.length + 4 * symbols.size);
  for (let id = 0; id < size; id += 1) {
    const own = texts.bytes.subarray(texts.starts[id], texts.starts[id + 1]);
    const written = symbols.get(id) ?? (own.includes(BEGIN) ? own.subarray(0, 0) : own);
    bytes.set(written, starts[id]);
    starts[id + 1] = starts[id]! + written.length;
  }
  return { ...texts, bytes: bytes.slice(0, starts[size]), starts, specialTokens: known };
}
