// Emoji as models write them: single ones, and such as are joined of several characters.

import { TINY_FIRST_MERGE_ID, TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';

/** Two UTF-16 units, eight, eleven (joined by U+200D), four (two letters of a flag), four (with a tone), and one. */
export const EMOJI = ['😀', '👩‍👩‍👧', '👨‍👩‍👧‍👦', '🇩🇪', '👍🏽', '☃'] as const;

/** Texts for the tokenizer of a tiny model whose every answer is emoji: whole ones and the parts of joined ones. */
export const EMOJI_TOKENS: readonly string[] = Array.from(
  { length: TINY_VOCAB_SIZE - TINY_FIRST_MERGE_ID },
  (_, index) => {
    const parts = [...new Set([...EMOJI, ...EMOJI.flatMap((one) => [...one])])];
    // A vocabulary names no token twice.
    return parts[index] ?? `${parts[index % parts.length]}${index}`;
  },
);

/** Ids of those tokens. */
export const EMOJI_IDS: readonly number[] = EMOJI_TOKENS.map((_, index) => TINY_FIRST_MERGE_ID + index);

export function hasHalfCharacter(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}
