import { describe, expect, it } from 'vitest';
import type { State } from '../../src/structured-output/byte-automaton.ts';
import { compile } from '../../src/structured-output/compile.ts';
import type { Constraint } from '../../src/structured-output/constraint.ts';
import { prepareGrammar } from '../../src/structured-output/first-walks.ts';
import { Matcher } from '../../src/structured-output/matcher.ts';
import { Credit, TooCostlyError } from '../../src/structured-output/meter.ts';
import { prepareVocabulary } from '../../src/structured-output/prepare-vocabulary.ts';
import { TokenAutomaton } from '../../src/structured-output/token-automaton.ts';
import { tokenTexts } from '../../src/structured-output/token-texts.ts';
import { Vocabulary } from '../../src/structured-output/vocabulary.ts';
import { AMBIGUOUS_GRAMMAR } from '../helpers/ambiguous-grammar.ts';
import { seededRandom } from '../helpers/byte-walk.ts';
import { CONSTRAINTS, END, has, json, SPECIAL, smallVocabulary } from './samples.ts';

const mark = (text: string): Constraint => ({ kind: 'mark', text });
const literal = (text: string): Constraint => ({ kind: 'literal', text });
const eitherOf = (...options: Constraint[]): Constraint => ({ kind: 'choice', options });
const inOrder = (...parts: Constraint[]): Constraint => ({ kind: 'sequence', parts });

describe('the mask over a vocabulary', () => {
  it.each(Object.entries(CONSTRAINTS))('allows exactly the tokens that may come: %s', (_, constraint) => {
    const grammar = structuredClone(compile(constraint));
    for (const seed of [1, 2]) {
      const prepared = smallVocabulary(seed);
      const vocabulary = new Vocabulary(prepared);
      // Whether what is met first was found out where the grammar was compiled, or is found out here.
      const known = seed === 1 ? structuredClone(prepareGrammar(grammar, prepared).known) : [];
      const automaton = new TokenAutomaton(grammar, vocabulary, known);
      const random = seededRandom(seed);
      const mask = new Uint32Array(vocabulary.maskWords);
      for (let walk = 0; walk < 3; walk += 1) {
        const matcher = new Matcher(automaton);
        for (let step = 0; step < 25; step += 1) {
          matcher.fillMask(mask);
          const allowed: number[] = [];
          for (let token = 0; token < vocabulary.size; token += 1) {
            const mayCome = matcher.accept(token);
            if (mayCome) matcher.rollback(1);
            if (mayCome !== has(mask, token))
              expect.unreachable(
                `token ${token} ${JSON.stringify(Buffer.from(vocabulary.bytesOf(token) ?? []).toString('latin1'))} in step ${step}`,
              );
            if (mayCome && token !== END) allowed.push(token);
          }
          expect(has(mask, SPECIAL)).toBe(false);
          expect(has(mask, END)).toBe(matcher.isComplete);
          if (allowed.length === 0) {
            expect(matcher.isComplete).toBe(true);
            break;
          }
          expect(matcher.accept(allowed[Math.floor(random() * allowed.length)]!)).toBe(true);
        }
      }
    }
  });

  it('is the same one for a matcher that was rolled back and for one that never went on', () => {
    const vocabulary = new Vocabulary(smallVocabulary(3));
    const automaton = new TokenAutomaton(compile(CONSTRAINTS['any JSON']!), vocabulary);
    const random = seededRandom(3);
    const matcher = new Matcher(automaton);
    const path: number[] = [];
    const masks: Uint32Array[] = [];
    const mask = (from: Matcher): Uint32Array => {
      const words = new Uint32Array(vocabulary.maskWords);
      from.fillMask(words);
      return words;
    };
    masks.push(mask(matcher));
    for (let step = 0; step < 400; step += 1) {
      if (path.length > 0 && random() < 0.3) {
        const back = 1 + Math.floor(random() * Math.min(4, path.length));
        matcher.rollback(back);
        path.length -= back;
        masks.length -= back;
      } else {
        const last = masks.at(-1)!;
        const allowed = Array.from({ length: vocabulary.size }, (_, token) => token).filter((token) =>
          has(last, token),
        );
        const token = allowed[Math.floor(random() * allowed.length)];
        if (token === undefined || !matcher.accept(token)) break;
        path.push(token);
        masks.push(mask(matcher));
      }
      const fresh = new Matcher(automaton);
      for (const token of path) fresh.accept(token);
      expect(mask(fresh)).toEqual(masks.at(-1));
      expect(fresh.isComplete).toBe(matcher.isComplete);
    }
  });
});

describe('a pattern that counts characters', () => {
  it('is not too costly over a large vocabulary', () => {
    const random = seededRandom(8);
    const letter = (): number => 0x61 + Math.floor(random() * 26);
    const words = Array.from({ length: 60_000 }, () =>
      Uint8Array.from({ length: 2 + Math.floor(random() * 8) }, letter),
    );
    const texts = tokenTexts([Uint8Array.of(0), Uint8Array.of(letter()), ...words], [0]);
    const vocabulary = new Vocabulary(prepareVocabulary(texts));
    const matcher = new Matcher(
      new TokenAutomaton(compile({ kind: 'regex', pattern: '.{1,500}' }), vocabulary),
    );
    const mask = new Uint32Array(vocabulary.maskWords);
    for (let count = 1; count <= 200; count += 1) {
      matcher.fillMask(mask);
      expect(matcher.accept(1), `token ${count}`).toBe(true);
    }
  });
});

describe('a grammar that can be read in very many ways', () => {
  it('uses up what its sequence has, soon, and is of no cost to others', () => {
    const vocabulary = new Vocabulary(smallVocabulary(6));
    const mask = new Uint32Array(vocabulary.maskWords);
    const hostile = new TokenAutomaton(compile({ kind: 'grammar', ebnf: AMBIGUOUS_GRAMMAR }), vocabulary);
    const started = performance.now();
    for (let time = 0; time < 2; time += 1)
      expect(() => new Matcher(hostile).fillMask(mask)).toThrow(TooCostlyError);
    expect(performance.now() - started).toBeLessThan(5000);
    const automaton = new TokenAutomaton(compile(CONSTRAINTS['any JSON']!), vocabulary);
    const matcher = new Matcher(automaton);
    matcher.fillMask(mask);
    expect(matcher.isComplete).toBe(false);
  });

  it('costs a sequence more than it has in the long run, where each token costs much', () => {
    const credit = new Credit();
    const all = credit.left;
    credit.spend(all / 2);
    credit.refill();
    expect(credit.left).toBeGreaterThan(all / 2);
    credit.spend(credit.left);
    credit.refill();
    expect(() => credit.spend(all / 2)).toThrow(TooCostlyError);
  });
});

describe('special tokens', () => {
  const TOKENS = [
    '</s>',
    '<call>',
    '<args>',
    '<call',
    'a',
    'b',
    'ab',
    '<',
    'call',
    'call>',
    'args>',
    '>',
    '\xff',
    '\0',
  ];
  const SPECIALS = new Map([
    ['</s>', END],
    ['<call>', 1],
    ['<args>', 2],
    ['<call', 3],
  ]);
  const texts = TOKENS.map((text, id) => (id < 4 ? null : new Uint8Array(Buffer.from(text, 'latin1'))));
  const vocabulary = new Vocabulary(structuredClone(prepareVocabulary(tokenTexts(texts, [END], SPECIALS))));

  const matcherOf = (constraint: Constraint): Matcher => {
    const grammar = structuredClone(compile(constraint, vocabulary.trie.specialTokens));
    return new Matcher(new TokenAutomaton(grammar, vocabulary));
  };
  const allowedBy = (matcher: Matcher): number[] => {
    const mask = new Uint32Array(vocabulary.maskWords);
    matcher.fillMask(mask);
    return TOKENS.flatMap((_, token) => (has(mask, token) ? [token] : []));
  };
  const idsOf = (...tokens: string[]): number[] => tokens.map((text) => TOKENS.indexOf(text));

  /** Texts in characters; a special token is one of a plane that no text here uses. */
  const SYMBOLS = [...SPECIALS].map(([text, id]) => ({ text, symbol: String.fromCodePoint(0x10000 + id) }));
  const symbolsOf = (text: string): string =>
    SYMBOLS.reduce((written, { text: token, symbol }) => written.replaceAll(token, symbol), text);
  const TOKEN_SYMBOLS = TOKENS.map((text, id) => (id < 4 ? String.fromCodePoint(0x10000 + id) : text));

  it.each<[string, Constraint, readonly string[]]>([
    ['a mark', mark('<call>a'), [symbolsOf('<call>a')]],
    ['characters', literal('<call>a'), ['<call>a']],
    ['either of both', eitherOf(mark('<call>'), literal('<call>')), [symbolsOf('<call>'), '<call>']],
    [
      'marks around text',
      inOrder(mark('<call>a<args>'), eitherOf(literal('ab'), literal('b<args>')), mark('<args>b')),
      [
        `${symbolsOf('<call>a<args>')}ab${symbolsOf('<args>b')}`,
        `${symbolsOf('<call>a<args>')}b<args>${symbolsOf('<args>b')}`,
      ],
    ],
    ['the longest of two', mark('<call<call>'), [symbolsOf('<call') + symbolsOf('<call>')]],
    ['an end, which is no part of a text', mark('a</s>'), ['a</s>']],
    [
      'marks around strings, which are nowhere in them',
      { kind: 'jsonSchema', schema: { enum: ['ab', 'b<args>', 'a>'] }, style: { quote: '<args>' } },
      ['ab', 'a>'].map((text) => `${symbolsOf('<args>')}${text}${symbolsOf('<args>')}`),
    ],
    [
      'marks around strings whose characters are counted',
      {
        kind: 'jsonSchema',
        schema: { type: 'string', minLength: 1, maxLength: 2 },
        style: { quote: '<args>' },
      },
      [...'ab<>\0']
        .flatMap((char) => ['', ...'ab<>\0'].map((next) => char + next))
        .map((text) => `${symbolsOf('<args>')}${text}${symbolsOf('<args>')}`),
    ],
    [
      'a separator',
      { kind: 'repeat', item: literal('a'), separator: '<call>', min: 1, max: 3 },
      ['a', symbolsOf('a<call>a'), symbolsOf('a<call>a<call>a')],
    ],
  ])('may come exactly where some text goes on with them: %s', (_, constraint, language) => {
    const walk = (matcher: Matcher, sofar: string): void => {
      const expected = TOKEN_SYMBOLS.flatMap((token, id) => {
        const isNext =
          id === END ? language.includes(sofar) : language.some((one) => one.startsWith(sofar + token));
        return isNext ? [id] : [];
      });
      expect(allowedBy(matcher), JSON.stringify(sofar)).toEqual(expected);
      for (const id of expected) {
        if (id === END) continue;
        expect(matcher.accept(id)).toBe(true);
        walk(matcher, sofar + TOKEN_SYMBOLS[id]!);
        matcher.rollback(1);
      }
    };
    walk(matcherOf(constraint), '');
  });

  const tags = (triggers: string[], begin: string): Constraint => ({
    kind: 'triggeredTags',
    triggers,
    tags: [{ begin, content: literal('a'), end: '<args>' }],
    atLeastOne: false,
    stopAfterFirst: false,
  });
  const allowedAfter = (constraint: Constraint, ...tokens: string[]): number[] => {
    const matcher = matcherOf(constraint);
    for (const id of idsOf(...tokens)) expect(matcher.accept(id)).toBe(true);
    return allowedBy(matcher);
  };

  it('begin and end tags in a text that may have others of them', () => {
    const constraint = tags(['<call>'], '<call>b');
    // Where the text might become the characters of the trigger, they do not come.
    expect(allowedAfter(constraint)).toEqual(
      idsOf('</s>', '<call>', '<args>', '<call', 'a', 'b', 'ab', '<', 'call', 'call>', 'args>', '>', '\0'),
    );
    expect(allowedAfter(constraint, '<')).not.toContain(TOKENS.indexOf('call>'));
    expect(allowedAfter(constraint, '<args>', 'a', '<call>')).toEqual(idsOf('b'));
    expect(allowedAfter(constraint, '<call>', 'b')).toEqual(idsOf('a'));
    expect(allowedAfter(constraint, '<call>', 'b', 'a')).toEqual(idsOf('<args>'));
    expect(allowedAfter(constraint, '<call>', 'b', 'a', '<args>')).toContain(END);
  });

  it('are not cut by a trigger that is a part of their text', () => {
    const constraint = tags(['<ca'], '<call>b');
    expect(allowedAfter(constraint, '<call>')).toEqual(idsOf('b'));
    // Its text has the trigger, and no tag begins with it.
    expect(allowedAfter(constraint)).not.toContain(TOKENS.indexOf('<call'));
    expect(allowedAfter(constraint, '<')).not.toContain(TOKENS.indexOf('call'));
  });

  it('never come where a trigger has no tag', () => {
    const constraint = tags(['<call>', 'ab'], '<call>b');
    expect(allowedAfter(constraint)).not.toContain(TOKENS.indexOf('ab'));
    expect(allowedAfter(constraint, 'a')).not.toContain(TOKENS.indexOf('b'));
    expect(allowedAfter(constraint, 'a', '<args>')).toContain(TOKENS.indexOf('b'));
  });

  it('have one spelling, and no token that is half of it', () => {
    expect([...matcherOf(mark('<call>')).forcedBytes()]).toEqual([0xff, 0, 0, 1]);
    expect(vocabulary.bytesOf(TOKENS.indexOf('\xff'))).toBeNull();
  });
});

describe('a matcher', () => {
  const vocabulary = new Vocabulary(smallVocabulary(4));

  it.each(Object.entries(CONSTRAINTS))('forces the bytes that all texts go on with: %s', (_, constraint) => {
    const automaton = new TokenAutomaton(compile(constraint), vocabulary);
    const { bytes } = automaton;
    const goesOn = (state: State): number[] =>
      Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => bytes.step(state, byte) !== null);
    const forced = (from: State): number[] => {
      const found: number[] = [];
      for (let state = from; !state.isComplete && found.length < 256; ) {
        const [only, another] = goesOn(state);
        if (only === undefined || another !== undefined) break;
        found.push(only);
        state = bytes.step(state, only)!;
      }
      return found;
    };
    const random = seededRandom(5);
    const matcher = new Matcher(automaton);
    const mask = new Uint32Array(vocabulary.maskWords);
    let state = bytes.start();
    for (let step = 0; step < 12; step += 1) {
      // The second time it is known.
      for (let time = 0; time < 2; time += 1) expect([...matcher.forcedBytes()]).toEqual(forced(state));
      matcher.fillMask(mask);
      const allowed = Array.from({ length: vocabulary.size }, (_, token) => token).filter(
        (token) => token !== END && has(mask, token),
      );
      const token = allowed[Math.floor(random() * allowed.length)];
      if (token === undefined) break;
      matcher.accept(token);
      state = automaton.step(state, token)!;
    }
  });

  const matcherOf = (constraint: Constraint): Matcher =>
    new Matcher(new TokenAutomaton(compile(constraint), vocabulary));

  it('tells what must come next where there is no choice', () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' } },
      required: ['name'],
      additionalProperties: false,
    };
    const matcher = matcherOf(json(schema, true));
    expect(Buffer.from(matcher.forcedBytes()).toString()).toBe('{"name":"');
    expect(matcherOf({ kind: 'literal', text: 'é' }).forcedBytes()).toEqual(new Uint8Array(Buffer.from('é')));
    expect(
      matcherOf({
        kind: 'choice',
        options: [
          { kind: 'literal', text: 'ab' },
          { kind: 'literal', text: 'b' },
        ],
      }).forcedBytes(),
    ).toHaveLength(0);
  });

  it('lets nothing follow a token of the end, and takes that one back as well', () => {
    const matcher = matcherOf({ kind: 'regex', pattern: '1*' });
    expect(matcher.accept(END)).toBe(true);
    const one = Array.from({ length: vocabulary.size }, (_, token) => token).find(
      (token) => Buffer.from(vocabulary.bytesOf(token) ?? []).toString() === '1',
    )!;
    expect(matcher.accept(one)).toBe(false);
    matcher.rollback(1);
    expect(matcher.accept(one)).toBe(true);
    expect(() => matcher.rollback(2)).toThrow(RangeError);
  });
});
