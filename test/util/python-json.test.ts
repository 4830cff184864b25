// JSON that Python has written, with words for numbers that JSON has none for.

import { describe, expect, it } from 'vitest';
import { parsePythonJson } from '../../src/util/python-json.ts';

describe('JSON as Python writes it', () => {
  it.each([
    ['{"time_step_limit": [0.0, Infinity]}', { time_step_limit: [0, null] }],
    ['[-Infinity,NaN,\nInfinity]', [null, null, null]],
    [
      '{"NaN": NaN, "a\\"Infinity": "-Infinity", "\\\\": Infinity}',
      { NaN: null, 'a"Infinity': '-Infinity', '\\': null },
    ],
    ['NaN', null],
    ['{"a": 1e999}', { a: Infinity }],
  ])('is read: %s', (text, value) => {
    expect(parsePythonJson(text)).toEqual(value);
  });

  it.each([
    '[1-Infinity]',
    '[--Infinity]',
    '[+Infinity]',
    '[Infinity2]',
    '[infinity]',
    '[nan]',
    '[-NaN]',
    '["Infinity]',
    '["\\',
    '[Infinity',
    '',
  ])('is refused where it is none: %s', (text) => {
    expect(() => parsePythonJson(text)).toThrow(SyntaxError);
  });

  it('is refused in time by its length, whatever is in it', () => {
    expect(() => parsePythonJson(`["${'\\"'.repeat(1_000_000)}`)).toThrow(SyntaxError);
  });
});
