// The syntax of Gemma 4 for arguments: what is written in it is read back, however deep, and what is enforced fits its schema.

import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerOf, type FunctionTool } from '../../src/parsers/answer-parts.ts';
import { requiredCalls } from '../../src/parsers/tool-constraint.ts';
import { ByteAutomaton } from '../../src/structured-output/byte-automaton.ts';
import { compile } from '../../src/structured-output/compile.ts';
import { accepts, randomText, seededRandom } from '../helpers/byte-walk.ts';
import { formatsOf, parse } from './parse.ts';
import { type SampleCall, WRITTEN } from './written-calls.ts';

const FORMATS = formatsOf('gemma4');

const written = (args: SampleCall['arguments']): string => WRITTEN.gemma4!([{ name: 'f', arguments: args }]);

function argumentsOf(pieces: readonly string[]): unknown {
  const { content, calls } = answerOf(parse(FORMATS, pieces, { tools: [{ name: 'f' }] }));
  expect({ content, names: calls.map(({ name }) => name) }).toEqual({ content: null, names: ['f'] });
  return JSON.parse(calls[0]!.arguments);
}

function automatonOf(parameters: FunctionTool['parameters']): ByteAutomaton {
  const tools = [{ name: 'f', parameters }];
  return new ByteAutomaton(compile(requiredCalls(FORMATS.tools!, { tools, isParallel: false })));
}

it('reads back any arguments, however deep, in any pieces', () => {
  const text = fc.string({ unit: 'grapheme' }).filter((one) => !one.includes('<|"|>'));
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom(true, false, null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(text, tie('value'), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(fc.dictionary(text, value), fc.integer({ min: 1, max: 9 }), (args, size) => {
      const whole = written(args);
      const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
      expect(argumentsOf(pieces)).toEqual(JSON.parse(JSON.stringify(args)));
    }),
    { numRuns: 200 },
  );
});

const NESTED = {
  type: 'object',
  properties: {
    where: {
      type: 'object',
      properties: {
        city: { type: 'string', maxLength: 5 },
        at: { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 },
      },
      required: ['at'],
    },
    'full name': { type: 'string', pattern: '^[A-Z][a-z]* ' },
    'days:': { type: 'integer', minimum: 1, maximum: 31 },
    città: { anyOf: [{ type: 'null' }, { type: 'boolean' }, { enum: ['a,b', '}', '<|'] }] },
    tree: { $ref: '#/$defs/tree' },
  },
  required: ['where', 'days:'],
  $defs: { tree: { type: 'object', properties: { inner: { $ref: '#/$defs/tree' }, leaf: true } } },
};
const OPEN = {
  type: 'object',
  properties: { id: { type: 'string', minLength: 1 } },
  additionalProperties: { type: ['string', 'null'] },
};
const ANY = { type: 'object', additionalProperties: true };

describe('enforced arguments', () => {
  it.each([
    ['nested ones', NESTED],
    ['other ones than the schema names', OPEN],
    ['any', ANY],
    ['none', {}],
  ])('are read, and fit their schema: %s', (_, schema) => {
    const automaton = automatonOf(schema);
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    const random = seededRandom(5);
    for (let run = 0; run < 15; run++) {
      const text = randomText(automaton, 30 + 10 * run, random);
      const args = argumentsOf([text]);
      expect(isValid(args), `${text} ${JSON.stringify(isValid.errors)}`).toBe(true);
      expect(argumentsOf([...text])).toEqual(args);
    }
  });

  it('may be all that fit', () => {
    const where = { at: [1, -2.5e-7], city: '<b>' };
    const good = [
      { where, 'days:': 3 },
      { 'days:': 31, città: '}', where: { at: [0, 0] }, 'full name': 'Ada {"\\n<|"|}' },
      { where, 'days:': 1, tree: { inner: { leaf: [[], {}, { a: null }], inner: {} } }, città: true },
    ];
    const bad = [
      { where },
      { where, 'days:': 0 },
      { where, 'days:': 1, more: 1 },
      { where: { at: [1] }, 'days:': 1 },
      { where: { ...where, city: 'Torino' }, 'days:': 1 },
      { where, 'days:': 1, 'full name': 'ada ' },
      { where, 'days:': 1, città: 'a' },
      { where, 'days:': 1, tree: { inner: 1 } },
    ];
    const automaton = automatonOf(NESTED);
    for (const args of good) expect(accepts(automaton, written(args)), written(args)).toBe(true);
    for (const args of bad) expect(accepts(automaton, written(args)), written(args)).toBe(false);
  });

  it('are refused where a key cannot be written', () => {
    const schema = { type: 'object', properties: { 'a<|"|>b': { type: 'string' } } };
    expect(() => automatonOf(schema)).toThrow(/^The schema at \/ names the key "a<\|\\"\|>b"/);
  });

  it('have no text that holds a mark', () => {
    const schema = { type: 'object', properties: { a: { enum: ['x<|"|>y'] } }, required: ['a'] };
    expect(() => automatonOf(schema)).toThrow(/allows no text at all/);
  });
});
