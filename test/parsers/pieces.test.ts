// What is read from an answer does not depend on how it is cut, whatever the model writes: texts made of calls, marks and what
// looks like them, broken here and there.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinedParts } from '../../src/parsers/answer-parts.ts';
import { REASONING_FORMATS } from '../../src/parsers/reasoning-formats.ts';
import { formatsOf, type ParseOptions, parse } from './parse.ts';
import { CLOCK, parserOf, type SampleCall, WEATHER, WRITTEN } from './written-calls.ts';

const ARGUMENTS: readonly SampleCall['arguments'][] = [
  {},
  { city: 'Pa"ris\n' },
  { city: '😀<b>', days: 3, where: { a: [1, { b: '}' }] } },
  { tags: ['a', 'b,c'], units: null, isExact: true },
];
const PIECES = [
  ...'{}[]()"\'\\\n ,:=;<x',
  '</',
  '|>',
  '12',
  'None',
  'é😀',
  '\ud83c',
  '\\u00e9',
  'get_weather',
  '{"name": "get_weather", "arguments": {',
  '"parameters"',
  '<parameter=city>',
  '</parameter>',
  'Hello world. ',
];

const call = fc.record({
  name: fc.constantFrom('get_weather', 'clock.now', 'other'),
  arguments: fc.constantFrom(...ARGUMENTS),
});
const options: fc.Arbitrary<ParseOptions> = fc.record({
  prompt: fc.constantFrom('', '<think>\n'),
  tools: fc.constant([WEATHER, CLOCK]),
  maxCalls: fc.constantFrom(1, 9),
  isEnforced: fc.boolean(),
  isCut: fc.boolean(),
  customNames: fc.constantFrom(new Set<string>(), new Set([CLOCK.name])),
});

/** The parts joined, without some characters at a few places. */
function textOf(
  parts: readonly string[],
  broken: readonly (readonly [at: number, length: number])[],
): string {
  return broken.reduce((text, [at, length]) => {
    const place = text.length === 0 ? 0 : at % text.length;
    return text.slice(0, place) + text.slice(place + length);
  }, parts.join(''));
}

describe.each(Object.keys(WRITTEN))('answers as %s', (format) => {
  const reasoning = fc.constantFrom('none', ...Object.keys(REASONING_FORMATS));
  const marks = formatsOf(parserOf(format)).tools?.tokens ?? [];
  const thoughts = Object.values(REASONING_FORMATS).flatMap(({ tokens }) => tokens);
  const part = fc.oneof(
    fc.array(call, { minLength: 1, maxLength: 2 }).map(WRITTEN[format]!),
    fc.constantFrom(...marks, ...thoughts),
    fc.constantFrom(...PIECES),
  );
  const holes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 3 })), { maxLength: 3 });
  const text = fc
    .tuple(fc.array(part, { maxLength: 9 }), holes)
    .map(([parts, broken]) => textOf(parts, broken));

  it('are the same in any pieces', () => {
    fc.assert(
      fc.property(text, reasoning, options, fc.nat(), (written, parser, given, cut) => {
        const formats = formatsOf(parserOf(format), parser);
        const read = (pieces: readonly string[]) => joinedParts(parse(formats, pieces, given));
        const at = cut % (written.length + 1);
        const whole = read([written]);
        expect(read([written.slice(0, at), written.slice(at)])).toEqual(whole);
        expect(read(written.split(''))).toEqual(whole);
      }),
      { numRuns: 200 },
    );
  });
});
