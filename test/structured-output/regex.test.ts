import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Budget, ConstraintError, DEFAULT_LIMITS } from '../../src/structured-output/limits.ts';
import { match } from '../../src/structured-output/regular/dfa.ts';
import { parsePattern, parseWholePattern } from '../../src/structured-output/regular/regex.ts';
import { toDfa } from '../../src/structured-output/regular/regular.ts';

function matcherOf(pattern: string, read = parsePattern): (text: string) => boolean {
  const budget = new Budget(DEFAULT_LIMITS);
  const dfa = toDfa(read(pattern, budget), budget);
  return (text) => dfa !== null && match(dfa, text) >= 0;
}

/** Of a random pattern; one in some thousands is larger than what is compiled, and is refused: that is another test's. */
function matchersOf(
  pattern: string,
): readonly [somewhere: (text: string) => boolean, whole: (text: string) => boolean] {
  try {
    return [matcherOf(pattern), matcherOf(pattern, parseWholePattern)];
  } catch (error) {
    fc.pre(!(error instanceof ConstraintError && error.message.includes('needs more than')));
    throw error;
  }
}

const char = fc.constantFrom('a', 'b', 'é', '😀', '0', '_', ' ', '\n', '-');
const atom = fc.constantFrom(
  'a',
  'b',
  'é',
  '.',
  '\\d',
  '\\w',
  '\\s',
  '\\W',
  '[ab]',
  '[^a]',
  '[a-c0-9]',
  '\\u00e9',
  '😀',
);
const { pattern } = fc.letrec<{ pattern: string; term: string }>((tie) => ({
  term: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    atom,
    fc
      .tuple(tie('pattern'), fc.constantFrom('', '*', '+', '?', '{2}', '{1,2}', '{0,}', '*?'))
      .map(([inner, times]) => `(${inner})${times}`),
  ),
  pattern: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.array(tie('term'), { maxLength: 3 }).map((terms) => terms.join('')),
    fc.tuple(tie('pattern'), tie('pattern')).map(([left, right]) => `${left}|${right}`),
    fc.tuple(fc.constantFrom('', '^'), tie('term'), fc.constantFrom('', '$')).map((parts) => parts.join('')),
  ),
}));

describe('a pattern', () => {
  it('has the matches that it has in JavaScript', () => {
    const text = fc.array(char, { maxLength: 6 }).map((chars) => chars.join(''));
    fc.assert(
      fc.property(pattern, fc.array(text, { minLength: 5, maxLength: 5 }), (source, texts) => {
        const [somewhere, whole] = matchersOf(source);
        for (const one of texts) {
          expect([source, one, somewhere(one)]).toEqual([source, one, new RegExp(source, 'u').test(one)]);
          expect([source, one, whole(one)]).toEqual([
            source,
            one,
            new RegExp(`^(?:${source})$`, 'u').test(one),
          ]);
        }
      }),
      { numRuns: 40 },
    );
  });

  it('looks ahead from where a text begins as JavaScript does', () => {
    const inner = pattern.filter((source) => !source.includes('|'));
    const lookahead = fc
      .tuple(fc.constantFrom('(?=', '(?!'), pattern)
      .map(([start, source]) => `${start}${source})`);
    const source = fc
      .tuple(
        fc.array(lookahead, { minLength: 1, maxLength: 2 }),
        inner,
        fc.constantFrom('', '$', '|b', '|^(?!a)b$'),
      )
      .map(([lookaheads, rest, end]) => `^${lookaheads.join('')}${rest}${end}`);
    const text = fc.array(char, { maxLength: 6 }).map((chars) => chars.join(''));
    fc.assert(
      fc.property(source, fc.array(text, { minLength: 5, maxLength: 5 }), (one, texts) => {
        const [somewhere, whole] = matchersOf(one);
        for (const written of texts) {
          expect([one, written, somewhere(written)]).toEqual([
            one,
            written,
            new RegExp(one, 'u').test(written),
          ]);
          expect([one, written, whole(written)]).toEqual([
            one,
            written,
            new RegExp(`^(?:${one})$`, 'u').test(written),
          ]);
        }
      }),
      { numRuns: 60 },
    );
  });

  it.each([
    // z.email() of zod, Decimal of pydantic, z.hostname().
    [
      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
      ['a.b@c.de', '_@x-y.org'],
      ['.a@c.de', 'a..b@c.de', 'a@c', 'a.@c.de'],
    ],
    ['^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$', ['1', '-0.5', '.5', '+00'], ['', '-', '.', '1.2.3', '+.']],
    ['^(?=.{1,7}\\.?$)[a-z]+(\\.[a-z]+)*\\.?$', ['a.b', 'abcdefg.'], ['abcdefgh', 'abcdefg.h']],
  ])('looks ahead in what libraries write: %s', (source, good, bad) => {
    expect([...good, ...bad].filter(matcherOf(source))).toEqual(good);
  });

  it('knows the properties of characters that Unicode has', () => {
    expect(['é', '語', 'x'].every(matcherOf('^\\p{Letter}$'))).toBe(true);
    expect(['1', '', '!'].some(matcherOf('^\\p{Letter}$'))).toBe(false);
  });

  it.each([
    ['(?=a)b', 'lookahead'],
    ['(?!a)b', 'negative lookahead'],
    ['^b(?=a)', 'only behind the ^'],
    ['^((?=a)b)', 'only behind the ^'],
    ['^(?=a(?!b))a', 'only behind the ^'],
    ['(?<=a)b', 'lookbehind'],
    ['(a)\\1', 'backreference'],
    ['\\bword', 'word boundary'],
    ['(a', '( without a )'],
    ['[b-a]', 'out of order'],
    ['\\p{Nonsense}', 'Unicode does not have'],
  ])('is refused by what cannot be enforced: %s', (source, reason) => {
    expect(() => matcherOf(source)).toThrow(ConstraintError);
    expect(() => matcherOf(source)).toThrow(reason);
  });

  it.each([
    'a{1,1000000}',
    '((a{1,100}){1,100}){1,100}',
    '((a|b)*a(a|b){30})',
    '('.repeat(10_000),
    'x'.repeat(2_000_000),
    '[^a]{1,3000}{1,3000}',
  ])('is refused where it is too large, soon: %#', (source) => {
    expect(() => matcherOf(source)).toThrow(ConstraintError);
  });
});
