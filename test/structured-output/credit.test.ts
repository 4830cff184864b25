// What a sequence is charged for following its constraint: by its own tokens, whatever others have found out or made forgotten.

import { describe, expect, it } from 'vitest';
import { ConstrainedTokens } from '../../src/sampling/constrained-tokens.ts';
import { compile } from '../../src/structured-output/compile.ts';
import { prepareGrammar } from '../../src/structured-output/first-walks.ts';
import type { Grammar } from '../../src/structured-output/grammar.ts';
import { Matcher } from '../../src/structured-output/matcher.ts';
import { TokenAutomaton } from '../../src/structured-output/token-automaton.ts';
import { Vocabulary } from '../../src/structured-output/vocabulary.ts';
import { seededRandom } from '../helpers/byte-walk.ts';
import { CONSTRAINTS, END, has, json, smallVocabulary } from './samples.ts';

const PREPARED = smallVocabulary(7);
const NUM_STEPS = 30;
const ALL = Object.entries({
  ...CONSTRAINTS,
  'many keys': json({
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`a${index}b`, true])),
    required: ['a0b', 'a59b'],
  }),
  'bounded arrays of choices': json({
    type: 'array',
    minItems: 2,
    maxItems: 9,
    items: { anyOf: [{ enum: ['a', 'b', 7] }, { type: 'array', items: { type: 'boolean' } }] },
  }),
  'what may be empty, read in several ways': {
    kind: 'grammar',
    ebnf: 'root ::= (a | b) (a | b) (a | b) "x" root?\na ::= "a"*\nb ::= ("b" | a)?',
  },
} as const);

function automatonOf(grammar: Grammar, isPrepared: boolean): TokenAutomaton {
  const known = isPrepared ? structuredClone(prepareGrammar(grammar, PREPARED).known) : [];
  // Without what was found out beforehand: every lexeme is walked when it is met.
  const prepared = isPrepared ? PREPARED : { ...PREPARED, known: [], knownCounted: [] };
  return new TokenAutomaton(grammar, new Vocabulary(prepared), known);
}

function maskOf(matcher: Matcher, { vocabulary }: TokenAutomaton): Uint32Array {
  const mask = new Uint32Array(vocabulary.maskWords);
  matcher.fillMask(mask);
  return mask;
}

function pick(mask: Uint32Array, size: number, random: () => number): number | undefined {
  const allowed = Array.from({ length: size }, (_, token) => token).filter(
    (token) => token !== END && has(mask, token),
  );
  return allowed[Math.floor(random() * allowed.length)];
}

/** A text by chance, and what the sequence has been charged after each token, alone and with nothing known. */
function chargesAlone(grammar: Grammar, seed: number): { token: number; cost: number }[] {
  const automaton = automatonOf(grammar, false);
  const matcher = new Matcher(automaton);
  const random = seededRandom(seed);
  const charges: { token: number; cost: number }[] = [];
  while (charges.length < NUM_STEPS) {
    const token = pick(maskOf(matcher, automaton), automaton.vocabulary.size, random);
    if (token === undefined || !matcher.accept(token)) break;
    charges.push({ token, cost: matcher.cost });
  }
  return charges;
}

/** Another sequence that begins with these tokens, and asks for no mask before them. */
function resume(automaton: TokenAutomaton, tokens: readonly { token: number }[]): void {
  const matcher = new Matcher(automaton);
  for (const { token } of tokens) {
    matcher.forcedBytes();
    matcher.accept(token);
  }
}

/** Goes some tokens ahead by chance, asks for all that can be asked for, and takes them back. */
function lookAhead(matcher: Matcher, automaton: TokenAutomaton, random: () => number): void {
  const before = matcher.numTokens;
  for (let step = 0; step < 3; step += 1) {
    matcher.forcedBytes();
    const token = pick(maskOf(matcher, automaton), automaton.vocabulary.size, random);
    if (token === undefined || !matcher.accept(token)) break;
  }
  matcher.rollback(matcher.numTokens - before);
}

/** More than any cache keeps: all that it had gives way. */
const TOO_LARGE = new Int32Array(2 ** 25);

function forgetAll({ bytes, vocabulary }: TokenAutomaton): void {
  const large = { ids: TOO_LARGE, bits: null };
  const [configuration] = bytes.start().configurations;
  vocabulary.masks.set(configuration!, { within: large, leaving: large });
  for (const cache of [vocabulary.own, vocabulary.shared]) {
    cache.set('large', { tokens: large, exits: [], work: 0 });
  }
}

describe('what a sequence is charged', () => {
  it.each(ALL)('is the same whatever is known, forgotten or looked ahead: %s', (_, constraint) => {
    const grammar = structuredClone(compile(constraint));
    for (const seed of [1, 2, 3]) {
      const alone = chargesAlone(grammar, seed);
      for (const isPrepared of [false, true]) {
        const automaton = automatonOf(grammar, isPrepared);
        const random = seededRandom(seed + 100);
        const others = Array.from({ length: 3 }, () => new Matcher(automaton));
        if (seed === 2) resume(automaton, alone);
        const matcher = new Matcher(automaton);
        for (const [step, { token, cost }] of alone.entries()) {
          for (const other of others) {
            const next = pick(maskOf(other, automaton), automaton.vocabulary.size, random);
            if (next !== undefined && random() < 0.7) other.accept(next);
          }
          if (random() < 0.5) lookAhead(matcher, automaton, random);
          if (random() < 0.3) forgetAll(automaton);
          if (random() < 0.2) {
            automaton.bytes.machine.numMade = Number.POSITIVE_INFINITY;
            others[step % others.length] = new Matcher(automaton);
            maskOf(others[step % others.length]!, automaton);
          }
          maskOf(matcher, automaton);
          expect(matcher.accept(token)).toBe(true);
          expect(matcher.cost, `step ${step}`).toBe(cost);
        }
      }
    }
  });

  it('is charged at all: a new state costs, one that was met before costs only its writing', () => {
    const automaton = automatonOf(compile({ kind: 'regex', pattern: '(ab)*' }), false);
    const matcher = new Matcher(automaton);
    const [a, b] = ['a', 'b'].map((text) =>
      Array.from({ length: automaton.vocabulary.size }, (_, id) => id).find(
        (id) => Buffer.from(automaton.vocabulary.bytesOf(id) ?? []).toString() === text,
      ),
    );
    const costs = [a, b, a, b].map((token) => {
      const before = matcher.cost;
      maskOf(matcher, automaton);
      matcher.accept(token!);
      return matcher.cost - before;
    });
    expect(costs[0]).toBeGreaterThan(costs[2]!);
    expect(costs[1]).toBeGreaterThan(costs[3]!);
    expect(costs[2]).toBeGreaterThan(0);
    expect(costs[3]).toBe(costs[2]);
  });

  it('is nothing for looking ahead, and what is too costly there is only not forced', () => {
    const automaton = automatonOf(compile(json(true)), false);
    const tokens = new ConstrainedTokens(
      { matcher: new Matcher(automaton), vocabulary: automaton.vocabulary },
      null,
    );
    const before = tokens.mask([], []);
    tokens.lookAhead(() => {
      tokens.accept(2);
      tokens.mask([], []);
    });
    expect(tokens.isTooCostly).toBe(false);
    expect(tokens.mask([], [])).toEqual(before);
  });
});
