// The most text that one token can encode, read from tokenizer.json: a text that is far too long for a model is refused
// without being tokenised.

import * as z from 'zod';
import { BYTE_OF_CHAR } from './decoder-stages.ts';

/** The steps that decide whether text can vanish or shrink on its way into tokens. */
const step = z.looseObject({ type: z.string() });
const file = z.object({
  normalizer: z.unknown().optional(),
  pre_tokenizer: z.unknown().optional(),
  model: z.looseObject({
    type: z.string().nullish(),
    byte_fallback: z.boolean().nullish(),
    vocab: z.unknown(),
  }),
  added_tokens: z
    .array(z.looseObject({ lstrip: z.boolean().nullish(), rstrip: z.boolean().nullish() }))
    .default([]),
});

/** Characters, as UTF-16 counts them, that canonical composition makes one of: three accents on a letter. */
const COMPOSED = 4;
/** Pre-tokenizers that only cut; others drop spaces. */
const CUTTING = new Set(['ByteLevel', 'Metaspace', 'Digits']);

/** The tokens of single bytes in vocabularies of the sentencepiece style. */
const FALLBACK_BYTES = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

/**
 * UTF-16 units of text that a token can encode at most.
 * @param json tokenizer.json
 * @param longestToken UTF-16 units of the longest token as the vocabulary writes it
 * @returns null where nothing is certain: where text may be dropped, or unknown characters become one token.
 */
export function maxCharsPerToken(json: unknown, longestToken: number): number | null {
  const parsed = file.safeParse(json);
  if (!parsed.success) return null;
  const { normalizer, pre_tokenizer: preTokenizer, model, added_tokens: added } = parsed.data;
  if (added.some(({ lstrip, rstrip }) => lstrip || rstrip)) return null;
  const normalizers = flatten(normalizer, 'normalizers');
  const preTokenizers = flatten(preTokenizer, 'pretokenizers');
  const isByteLevel = [...normalizers, ...preTokenizers].some(({ type }) => type === 'ByteLevel');
  const bytes = isByteLevel ? BYTE_OF_CHAR.keys() : model.byte_fallback ? FALLBACK_BYTES : null;
  if (model.type !== 'BPE' || bytes === null || !hasAll(model.vocab, bytes)) return null;
  let most = longestToken;
  for (const one of normalizers) {
    const factor = shrinkage(one);
    if (factor === null) return null;
    most *= factor;
  }
  return preTokenizers.every(cutsOnly) ? most : null;
}

/** Without its token a byte is dropped or becomes an unknown, and any number of those in a row may become one. */
function hasAll(vocab: unknown, tokens: Iterable<string>): boolean {
  if (typeof vocab !== 'object' || vocab === null) return false;
  return [...tokens].every((token) => Object.hasOwn(vocab, token));
}

type Step = z.output<typeof step>;

/** The steps of a sequence, sequences in it included. A step of an unknown form becomes a step of no known type. */
function flatten(value: unknown, key: string): Step[] {
  if (value === null || value === undefined) return [];
  const parsed = step.safeParse(value);
  if (!parsed.success) return [{ type: '' }];
  const inner = parsed.data[key];
  if (parsed.data.type !== 'Sequence' || !Array.isArray(inner)) return [parsed.data];
  return inner.flatMap((one: unknown) => flatten(one, key));
}

/** By how much a normalizer may shorten text; null is without limit. */
function shrinkage(normalizer: Step): number | null {
  const { type, pattern, content } = normalizer;
  if (type === 'ByteLevel' || type === 'Prepend' || type === 'NFD' || type === 'NFKD') return 1;
  if (type === 'NFC' || type === 'NFKC' || type === 'Lowercase') return COMPOSED;
  const text = z.object({ String: z.string() }).safeParse(pattern);
  if (type !== 'Replace' || !text.success || typeof content !== 'string' || content === '') return null;
  return Math.max(1, text.data.String.length / content.length);
}

function cutsOnly({ type, behavior }: Step): boolean {
  return CUTTING.has(type) || (type === 'Split' && behavior !== 'Removed');
}
