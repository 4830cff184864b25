import { describe, expect, it } from 'vitest';
import { maxCharsPerToken } from '../../src/tokenizer/max-chars-per-token.ts';
import { byteFallbackTokenizer, byteLevelTokenizer, wordTokenizer } from '../helpers/small-tokenizers.ts';

const LONGEST = 10;
const withParts = (parts: object) => ({ ...byteLevelTokenizer(), ...parts });
const added = (fields: object) => [
  { id: 256, content: '<e>', special: true, lstrip: false, rstrip: false, ...fields },
];

describe('the text that a token can stand for', () => {
  it('is the longest token where every byte of the text comes out in one', () => {
    expect(maxCharsPerToken(byteLevelTokenizer(), LONGEST)).toBe(LONGEST);
    expect(maxCharsPerToken(byteFallbackTokenizer(), LONGEST)).toBe(LONGEST);
  });

  it('grows by what composition of characters may shorten', () => {
    expect(maxCharsPerToken(withParts({ normalizer: { type: 'NFC' } }), LONGEST)).toBe(4 * LONGEST);
  });

  it('grows by what replacements shorten', () => {
    const replace = { type: 'Replace', pattern: { String: 'abcd' }, content: 'xy' };
    const normalizer = { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '_' }, replace] };
    expect(maxCharsPerToken(withParts({ normalizer }), LONGEST)).toBe(2 * LONGEST);
  });

  it.each([
    ['a word model with one unknown token', wordTokenizer(['hello'], null)],
    ['a byte fallback without byte tokens', { model: { type: 'BPE', byte_fallback: true, vocab: { a: 0 } } }],
    ['a byte-level vocabulary that lacks bytes', withParts({ model: { type: 'BPE', vocab: { a: 0 } } })],
    ['a normalizer that strips', withParts({ normalizer: { type: 'Strip' } })],
    [
      'a replacement by nothing',
      withParts({ normalizer: { type: 'Replace', pattern: { String: 'a' }, content: '' } }),
    ],
    [
      'a replacement by a pattern',
      withParts({ normalizer: { type: 'Replace', pattern: { Regex: 'a+' }, content: 'a' } }),
    ],
    ['a pre-tokenizer that drops spaces', withParts({ pre_tokenizer: { type: 'Whitespace' } })],
    ['a token that eats the spaces around it', withParts({ added_tokens: added({ rstrip: true }) })],
    ['a file of another form', []],
  ])('is not known for %s', (_, file) => {
    expect(maxCharsPerToken(file, LONGEST)).toBeNull();
  });
});
