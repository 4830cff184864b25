// The added tokens that only tokenizer_config.json names ("added_tokens_decoder"): the original adds them to those of
// tokenizer.json, so that they are one token each and, where they are special, no text.

import * as z from 'zod';

const namedToken = z
  .object({
    content: z.string(),
    special: z.boolean().default(false),
    single_word: z.boolean().default(false),
    lstrip: z.boolean().default(false),
    rstrip: z.boolean().default(false),
    normalized: z.boolean().optional(),
  })
  .transform((token) => ({ ...token, normalized: token.normalized ?? !token.special }));

const addedTokensOf = z.looseObject({
  added_tokens: z
    .array(z.looseObject({ id: z.number(), content: z.string(), special: z.boolean() }))
    .default([]),
});

/** By id; an id that the vocabulary has no room for becomes the next one that is free, as in the original. */
export const namedTokens = z.record(z.string().regex(/^\d+$/), namedToken).nullish();

type NamedTokens = z.output<typeof namedTokens>;

interface AddedToken {
  readonly content: string;
  readonly special: boolean;
}

/** The text of a tokenizer.json, and the tokens that it adds to the vocabulary. */
interface TokenizerText {
  readonly text: string;
  readonly addedTokens: readonly AddedToken[];
}

/** @param file of which the text is valid JSON with these added tokens. */
export function withNamedTokens(file: TokenizerText, named: NamedTokens): TokenizerText {
  const isKnown = new Set(file.addedTokens.map(({ content }) => content));
  const isSpecial = new Set(file.addedTokens.filter(({ special }) => special).map(({ content }) => content));
  const added = Object.entries(named ?? {})
    .map(([id, token]) => ({ id: Number(id), ...token }))
    .filter(({ content, special }) => !(special ? isSpecial : isKnown).has(content))
    .sort((a, b) => a.id - b.id);
  if (added.length === 0) return file;
  const parsed = addedTokensOf.parse(JSON.parse(file.text));
  // Each in its old place: where the vocabulary does not have them, the order decides the ids.
  const byContent = new Map(added.map((token) => [token.content, token]));
  const mended = parsed.added_tokens.map((token) => ({
    ...token,
    ...byContent.get(token.content),
    id: token.id,
  }));
  const others = added.filter(({ content }) => !isKnown.has(content));
  const all = [...mended, ...others];
  return { text: JSON.stringify({ ...parsed, added_tokens: all }), addedTokens: all };
}
