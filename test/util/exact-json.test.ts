import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { holdsWholeNumber, inDoubles, parseExactJson, textOfObjectField } from '../../src/util/exact-json.ts';

describe('parseExactJson', () => {
  it('gives what JSON.parse gives, but for how numbers are written', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), fc.constantFrom(0, 1, '\t'), (text, indent) => {
        const value = JSON.parse(text);
        expect(inDoubles(parseExactJson(JSON.stringify(value, null, indent)))).toEqual(value);
      }),
    );
  });

  it.each<[string, unknown]>([
    ['1', 1],
    ['-0', -0],
    ['0.5', 0.5],
    ['1e-7', 1e-7],
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['-12345678901234567890', -12345678901234567890n],
    ['1.0', Object(1)],
    ['-0.0', Object(-0)],
    ['1E20', Object(1e20)],
    ['"1.0"', '1.0'],
    ['1e400', Number.POSITIVE_INFINITY],
    ['9'.repeat(4300), 10n ** 4300n - 1n],
    ['9'.repeat(4301), Number.POSITIVE_INFINITY],
  ])('%.20s', (text, expected) => {
    const exact = parseExactJson(text);
    expect(exact).toStrictEqual(expected);
    expect(structuredClone(exact)).toStrictEqual(exact);
  });

  it('keeps the last of fields of one name, and names that objects have anyway', () => {
    const text = '{"__proto__": {"a": 1.0}, "a": 1, "a": 2.0}';
    expect(JSON.stringify(parseExactJson(text))).toBe('{"__proto__":{"a":1},"a":2}');
  });

  it('is asked only where a number is whole', () => {
    expect(holdsWholeNumber({ a: [{ b: 1 }] })).toBe(true);
    expect(holdsWholeNumber({ a: [{ b: 1.5, c: '1', d: null }] })).toBe(false);
    expect(holdsWholeNumber(undefined)).toBe(false);
  });
});

describe('textOfObjectField', () => {
  it('is the text of the value that JSON.parse gives', () => {
    const value = fc.dictionary(
      fc.constantFrom('body', 'a', '"', '__proto__'),
      fc.jsonValue({ maxDepth: 3 }),
    );
    fc.assert(
      fc.property(value, fc.constantFrom(0, 1), (fields, indent) => {
        const text = JSON.stringify(fields, null, indent);
        const body: unknown = JSON.parse(text).body;
        const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
        const found = textOfObjectField(text, 'body');
        expect(found === null ? null : JSON.parse(found)).toEqual(isObject ? body : null);
      }),
      { numRuns: 1000 },
    );
  });

  it('is that of the last field of the name, as it was written', () => {
    const text =
      '{"body": {"a": 1}, "x": [{"body": {}}], "body": {"b": 1.0, "body": {} }, "y": {"body": {}}}';
    expect(textOfObjectField(text, 'body')).toBe('{"b": 1.0, "body": {} }');
    expect(textOfObjectField('{"body": {}, "body": 1}', 'body')).toBeNull();
  });
});
