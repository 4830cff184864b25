import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, it } from 'vitest';
import { WordWrap } from '../../src/cli/chat/word-wrap.ts';

function wrap(columns: number, ...pieces: readonly string[]): string {
  const wordWrap = new WordWrap(() => columns);
  return pieces.map((piece) => wordWrap.push(piece)).join('') + wordWrap.end();
}

const words = fc
  .array(
    fc.constantFrom(
      'a',
      'bee',
      'longest',
      ' ',
      '  ',
      '\n',
      '\t',
      'é',
      'e\u0301',
      '日',
      '本語',
      '👩‍👩‍👧',
      '🙂',
      ',',
    ),
  )
  .map((parts) => parts.join(''));

describe('word wrap', () => {
  it('breaks between words and drops the space there', () => {
    expect(wrap(10, 'one two three four')).toBe('one two\nthree four');
  });

  it('keeps line breaks and the indent behind them', () => {
    expect(wrap(20, 'if (a)\n\n    return;')).toBe('if (a)\n\n    return;');
  });

  it('leaves a word that is longer than a line to the terminal', () => {
    expect(wrap(5, 'see abcdefghijkl now')).toBe('see\nabcdefghijkl\nnow');
  });

  it('breaks between wide characters, which take two columns', () => {
    expect(wrap(6, '日本語日本語')).toBe('日本語\n日本語');
    expect(wrap(6, 'ab 日本語')).toBe('ab 日\n本語');
  });

  it('counts an emoji of several parts once, also when the parts come one by one', () => {
    expect(wrap(7, ...'👩‍👩‍👧 👩‍👩‍👧 ab')).toBe('👩‍👩‍👧 👩‍👩‍👧\nab');
  });

  it('writes what has its place at once and holds back only the word at the end of the line', () => {
    const wordWrap = new WordWrap(() => 12);
    expect(['be', 'gin', ' wi', 'th', ' word', 's'].map((piece) => wordWrap.push(piece))).toEqual([
      'be',
      'gin',
      '',
      '',
      ' with\nword',
      's',
    ]);
    expect(wordWrap.end()).toBe('');
  });

  it('takes out what would steer the terminal', () => {
    expect(wrap(40, 'a\x1b[2Jb\x07\r\nc\x9b')).toBe('a[2Jb\nc');
  });

  it('drops white space around the text', () => {
    expect(wrap(20, '\n\n  Hello', '\n', '\n')).toBe('Hello');
  });

  it('heeds a terminal that changes its width', () => {
    let columns = 20;
    const wordWrap = new WordWrap(() => columns);
    const first = wordWrap.push('one two ');
    columns = 8;
    expect(first + wordWrap.push('three ') + wordWrap.end()).toBe('one two\nthree');
  });

  it('writes the same however the text is cut into pieces', () => {
    fc.assert(
      fc.property(words, fc.array(fc.nat(5)), (text, cuts) => {
        const characters = Array.from(text);
        const pieces = cuts.map((count) => characters.splice(0, count).join(''));
        expect(wrap(9, ...pieces, characters.join(''))).toBe(wrap(9, text));
      }),
    );
  });

  it('changes nothing but white space, and keeps lines of words that fit within the width', () => {
    fc.assert(
      fc.property(words, fc.integer({ min: 2, max: 30 }), (text, columns) => {
        const wrapped = wrap(columns, text);
        expect(wrapped.replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
        for (const line of wrapped.split('\n')) {
          // The terminal itself breaks a word that no line has room for, or none behind its indent.
          const [indented = '', ...words] = line.split(/(?<=\S)\s+/);
          const isBroken = [indented, ...words].some((word) => stringWidth(word) > columns);
          if (!isBroken && !line.includes('\t'))
            expect(stringWidth(line.trimEnd())).toBeLessThanOrEqual(columns);
        }
      }),
    );
  });
});
