// Constraints of all kinds, and a small vocabulary that meets them at every turn.

import type { Constraint } from '../../src/structured-output/constraint.ts';
import { prepareVocabulary } from '../../src/structured-output/prepare-vocabulary.ts';
import { tokenTexts } from '../../src/structured-output/token-texts.ts';
import type { PreparedVocabulary } from '../../src/structured-output/vocabulary.ts';
import { seededRandom } from '../helpers/byte-walk.ts';

export const END = 0;
export const SPECIAL = 1;
export const json = (schema: unknown, compact = false): Constraint => ({
  kind: 'jsonSchema',
  schema,
  style: { compact },
});

export const CONSTRAINTS: Readonly<Record<string, Constraint>> = {
  'any JSON': json(true),
  'compact JSON': json(true, true),
  'an object': json({
    type: 'object',
    properties: { a: { type: 'string', maxLength: 3 }, ab: { type: 'integer' }, b: { enum: ['x', 'xy', 7] } },
    required: ['a', 'b'],
  }),
  'a closed object': json({
    properties: { a: true, ab: true, abc: false },
    additionalProperties: false,
    type: 'object',
  }),
  'required keys of few': json({
    type: 'object',
    properties: { a: { type: 'null' }, ab: { type: 'null' } },
    patternProperties: { '^[ab]': true },
    additionalProperties: false,
    required: ['ab'],
    maxProperties: 2,
  }),
  'keys by pattern': json({
    type: 'object',
    patternProperties: { '^a': { type: 'null' } },
    maxProperties: 3,
  }),
  'counted characters': json({ type: 'string', minLength: 2, maxLength: 5 }),
  'counted items': json({ type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 4 }),
  'one of many shapes': json({
    anyOf: [{ type: 'object', required: ['a'] }, { type: 'array' }, { const: 'ab' }],
  }),
  'a tree': json({
    type: 'object',
    properties: { a: { $ref: '#' }, b: { type: 'array', items: { $ref: '#' } } },
  }),
  'strings between marks': {
    kind: 'jsonSchema',
    schema: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        'a"': { enum: ['ab', '":', 'x'] },
        b: { items: { maxLength: 3 } },
      },
      additionalProperties: { type: 'null' },
    },
    style: { compact: true, quote: '":' },
  },
  'a pattern': { kind: 'regex', pattern: '(a|b{2,4}|é)+,\\d{1,3}' },
  'counted characters of a pattern': { kind: 'regex', pattern: '[ab01 .é]{40,120}x?' },
  'characters that are counted or not': { kind: 'regex', pattern: '[.][a-f0-9 ]*|x[a-f0-9 ]{0,50}' },
  'strings of counted characters': json({ items: { pattern: '^[ab01 .,é]{40,90}$' }, type: 'array' }),
  'free text': { kind: 'regex', pattern: '(\\w+ |[^"é])*.*' },
  'a choice': { kind: 'choice', options: ['a', 'ab', 'abc', 'é'].map((text) => ({ kind: 'literal', text })) },
  'a grammar': { kind: 'grammar', ebnf: 'root ::= "a" root "b" | "(" [0-9]* ")" | "é"+' },
  'tags in text': {
    kind: 'triggeredTags',
    triggers: ['{"'],
    tags: [{ begin: '{"a', content: { kind: 'regex', pattern: '[ab]*' }, end: '"}' }],
    atLeastOne: false,
    stopAfterFirst: false,
  },
};

/** Pieces of JSON, of characters, and runs of both, by chance. */
export function smallVocabulary(seed: number): PreparedVocabulary {
  const random = seededRandom(seed);
  const pieces = [
    ...'{}[]",:ab01e-.x \n\\()',
    'null',
    'tru',
    'e',
    '\\u00',
    '{"',
    '":',
    '",',
    '"}',
    'ab',
    ',"',
    'é',
    '😀',
  ];
  const piece = (): string => pieces[Math.floor(random() * pieces.length)]!;
  const tokens = pieces.map((text) => new Uint8Array(Buffer.from(text)));
  for (const byte of [...Buffer.from('é😀')]) tokens.push(Uint8Array.of(byte));
  for (let i = 0; i < 300; i += 1) {
    const bytes = Buffer.from(Array.from({ length: 2 + Math.floor(random() * 4) }, piece).join(''));
    // Tokens end within characters as well.
    tokens.push(new Uint8Array(random() < 0.2 ? bytes.subarray(0, bytes.length - 1) : bytes));
  }
  // As long as few are.
  for (const text of ['ab', '01 ', 'a.b', 'é', ' '])
    for (const length of [23, 24, 25, 26, 40])
      tokens.push(new Uint8Array(Buffer.from(text.repeat(length)).subarray(0, length)));
  const all = [new Uint8Array(Buffer.from('</s>')), null, ...tokens];
  return structuredClone(prepareVocabulary(tokenTexts(all, [END])));
}

export function has(mask: Uint32Array, token: number): boolean {
  return ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1;
}
