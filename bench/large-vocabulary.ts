// A vocabulary of the size that large models have, for measuring masks: a published one and more tokens like its own.

import { existsSync, readFileSync } from 'node:fs';
import { type TokenTexts, tokenTexts } from '../src/structured-output/token-texts.ts';
import { byteLevelBytes } from '../src/tokenizer/decoder-stages.ts';
import { seededRandom } from '../test/helpers/byte-walk.ts';

const TOKENIZER = '../shared/fixtures/tokenizers/llama3.1/tokenizer.json';
/** Tokens of the published one that are no words, at its end. */
const NUM_SPECIAL = 256;
export const LARGE_VOCABULARY_SIZE = 151_936;
/** What a note says of it. */
export const LARGE_VOCABULARY = `${LARGE_VOCABULARY_SIZE} tokens: those of Llama 3.1, and further ones that are two of them in a row`;

/** Null where the published one is not beside the checkout. */
export function readLargeVocabulary(): TokenTexts | null {
  if (!existsSync(TOKENIZER)) return null;
  const { model, added_tokens: added } = JSON.parse(readFileSync(TOKENIZER, 'utf8'));
  const bytes: (Uint8Array | null)[] = [];
  for (const [token, id] of Object.entries<number>(model.vocab))
    bytes[id] = Uint8Array.from(byteLevelBytes(token) ?? []);
  for (const { id } of added) bytes[id] = null;
  const tokens = Array.from(bytes, (one) => one ?? null);
  const endTokenId = tokens.length - 1;
  const random = seededRandom(1);
  const anyToken = () => tokens[Math.floor(random() * (endTokenId - NUM_SPECIAL))] ?? [];
  while (tokens.length < LARGE_VOCABULARY_SIZE) tokens.push(Uint8Array.of(...anyToken(), ...anyToken()));
  return tokenTexts(tokens, [endTokenId]);
}
