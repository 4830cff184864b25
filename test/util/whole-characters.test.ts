import fc from 'fast-check';
import { expect, it } from 'vitest';
import { wholeCharacters } from '../../src/util/whole-characters.ts';
import { EMOJI, hasHalfCharacter } from '../helpers/emoji.ts';

it('cuts a text at most one unit before the length that was asked for, and never within a character', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...EMOJI, 'a', 'é') }),
      fc.integer({ min: -3, max: 40 }),
      (text, length) => {
        const cut = wholeCharacters(text, length);
        expect(text.startsWith(cut)).toBe(true);
        expect(hasHalfCharacter(cut)).toBe(false);
        const most = Math.min(text.length, Math.max(0, length));
        expect(most - cut.length).toBeGreaterThanOrEqual(0);
        expect(most - cut.length).toBeLessThanOrEqual(1);
      },
    ),
  );
});
