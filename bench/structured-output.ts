// What it costs to constrain a token: masks over a published vocabulary along random walks through the official schemas of
// JSON Schema and a few that programs send, and the time from a schema to its first mask.

import { compile } from '../src/structured-output/compile.ts';
import type { Constraint } from '../src/structured-output/constraint.ts';
import { prepareGrammar } from '../src/structured-output/first-walks.ts';
import { ConstraintError } from '../src/structured-output/limits.ts';
import { Matcher } from '../src/structured-output/matcher.ts';
import { MOST_CREDIT } from '../src/structured-output/meter.ts';
import { prepareVocabulary } from '../src/structured-output/prepare-vocabulary.ts';
import { TokenAutomaton } from '../src/structured-output/token-automaton.ts';
import { type PreparedVocabulary, Vocabulary } from '../src/structured-output/vocabulary.ts';
import { seededRandom } from '../test/helpers/byte-walk.ts';
import { examine } from '../test/helpers/examine-schema.ts';
import { readSuite } from '../test/helpers/json-schema-suite.ts';
import { LARGE_VOCABULARY, readLargeVocabulary } from './large-vocabulary.ts';
import type { Figure, Section } from './report.ts';
import { median } from './report.ts';

const WALKS = 4;
const TOKENS = 64;

/** What a program asks for: a record, a list of choices, a pattern. */
const TYPICAL: readonly Constraint[] = [
  { kind: 'jsonSchema', schema: true },
  {
    kind: 'jsonSchema',
    schema: {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 100 },
        age: { type: 'integer', minimum: 0, maximum: 150 },
        email: { type: 'string', format: 'email' },
        created: { type: 'string', format: 'date-time' },
        tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, maxItems: 8 },
        parts: {
          type: 'array',
          items: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
        },
      },
      required: ['name', 'age', 'email', 'tags'],
      additionalProperties: false,
    },
  },
  { kind: 'choice', options: ['positive', 'negative', 'neutral'].map((text) => ({ kind: 'literal', text })) },
  { kind: 'regex', pattern: '(\\w+ ){3,8}\\w+\\.' },
];

export async function structuredOutputSection(): Promise<Section> {
  const title = 'Structured output';
  const texts = readLargeVocabulary();
  if (texts === null) return { title, figures: [], notes: ['Needs ../shared/fixtures.'] };
  const began = performance.now();
  const prepared = prepareVocabulary(texts);
  const vocabulary = new Vocabulary(prepared);
  const vocabularyMs = performance.now() - began;
  const suite = measureSuite(prepared, vocabulary);
  const cold = TYPICAL.map((constraint) => {
    const { grammar, known } = prepareGrammar(compile(constraint), prepared);
    return new TokenAutomaton(grammar, vocabulary, known);
  });
  const first = cold.flatMap((automaton) => walkTimes(automaton, 1));
  const later = cold.flatMap((automaton) => walkTimes(automaton, 2));
  return {
    title,
    figures: [
      plain('schemas of the official tests: enforced', suite.enforced, 'schemas', null),
      plain('- refused', suite.refused, 'schemas', null),
      plain('- wrong', suite.wrong, 'schemas', '0'),
      plain('schema to first mask, median of them', median(suite.firstMaskMs), 'ms', '< 50'),
      plain('- p99', percentile(suite.firstMaskMs, 0.99), 'ms', null),
      ...maskFigures('a mask of their walks', suite.maskMs),
      plain('credit that a walk spends at most', (100 * suite.mostCost) / MOST_CREDIT, '%', '< 25 %'),
      ...maskFigures('a mask of typical constraints, first use', first),
      ...maskFigures('a mask of typical constraints, later', later),
      plain('vocabulary made ready', vocabularyMs, 'ms', null),
    ],
    notes: [`${LARGE_VOCABULARY}; ${WALKS} walks of up to ${TOKENS} tokens by chance for each constraint.`],
  };
}

function plain(name: string, value: number, unit: string, goal: string | null): Figure {
  return { name, value, unit, limit: null, goal };
}

function maskFigures(name: string, times: readonly number[]): Figure[] {
  const mean = (1000 * times.reduce((sum, time) => sum + time, 0)) / times.length;
  return [
    plain(name, mean, 'us', '< 50'),
    plain('- median', 1000 * median(times), 'us', null),
    plain('- p99', 1000 * percentile(times, 0.99), 'us', '< 500'),
  ];
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(share * values.length)]!;
}

function measureSuite(
  prepared: PreparedVocabulary,
  vocabulary: Vocabulary,
): {
  enforced: number;
  refused: number;
  wrong: number;
  firstMaskMs: number[];
  maskMs: number[];
  mostCost: number;
} {
  const counts = { enforced: 0, refused: 0, wrong: 0 };
  const firstMaskMs: number[] = [];
  const maskMs: number[] = [];
  let mostCost = 0;
  const mask = new Uint32Array(vocabulary.maskWords);
  for (const [index, group] of readSuite().entries()) {
    const { schema } = group;
    counts[examine(group, index).verdict] += 1;
    const began = performance.now();
    try {
      const compiled = compile({ kind: 'jsonSchema', schema, style: { ignoreFormats: true } });
      const { grammar, known } = prepareGrammar(compiled, prepared);
      const automaton = new TokenAutomaton(grammar, vocabulary, known);
      new Matcher(automaton).fillMask(mask);
      firstMaskMs.push(performance.now() - began);
      maskMs.push(
        ...walkTimes(automaton, 1, (cost) => {
          mostCost = Math.max(mostCost, cost);
        }),
      );
    } catch (thrown) {
      // What is refused is counted below.
      if (!(thrown instanceof ConstraintError)) throw thrown;
    }
  }
  return { ...counts, firstMaskMs, maskMs, mostCost };
}

/**
 * Milliseconds of each mask along some walks.
 * @param onCost is told what each walk has cost in steps.
 */
function walkTimes(
  automaton: TokenAutomaton,
  seed: number,
  onCost: (cost: number) => void = () => {},
): number[] {
  const random = seededRandom(seed);
  const { vocabulary } = automaton;
  const mask = new Uint32Array(vocabulary.maskWords);
  const times: number[] = [];
  for (let walk = 0; walk < WALKS; walk += 1) {
    const matcher = new Matcher(automaton);
    for (let i = 0; i < TOKENS; i += 1) {
      const began = performance.now();
      matcher.fillMask(mask);
      times.push(performance.now() - began);
      const token = tokenOf(mask, random);
      if (!matcher.accept(token)) throw new Error('a token of the mask was refused');
      if (vocabulary.endTokenIds.includes(token)) break;
    }
    onCost(matcher.cost);
  }
  return times;
}

/** A token by chance: the first one of the mask after a random place. */
function tokenOf(mask: Uint32Array, random: () => number): number {
  const start = Math.floor(random() * mask.length);
  for (let i = 0; i < mask.length; i += 1) {
    const index = (start + i) % mask.length;
    const word = mask[index]!;
    if (word !== 0) return index * 32 + 31 - Math.clz32(word & -word);
  }
  throw new Error('a mask without a token');
}
