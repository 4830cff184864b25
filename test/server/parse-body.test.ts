import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { InvalidRequestError, MalformedRequestError } from '../../src/errors.ts';
import { parseBody } from '../../src/server/parse-body.ts';

const schema = z.looseObject({
  count: z.int().min(1).max(9).nullish(),
  share: z.number().gt(0).lt(1).nullish(),
  word: z.string().min(2).max(4).nullish(),
  list: z.array(z.boolean()).min(1).max(2).nullish(),
  either: z.union([z.string(), z.array(z.number())]).nullish(),
  kind: z.enum(['a', 'b']).nullish(),
  inner: z.looseObject({ flag: z.boolean() }).nullish(),
});

function messageOf(body: unknown): string {
  try {
    parseBody(schema, body);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return 'accepted';
}

describe('parseBody', () => {
  it.each([
    [{ count: 0 }, 'count must be at least 1, got 0'],
    [{ count: 10 }, 'count must be at most 9, got 10'],
    [{ count: 1.5 }, 'count must be an integer, got 1.5'],
    [{ share: 0 }, 'share must be greater than 0, got 0'],
    [{ share: 1 }, 'share must be less than 1, got 1'],
    [{ word: 'x' }, 'word must have at least 2 characters, got "x"'],
    [{ word: 'x'.repeat(100) }, `word must have at most 4 characters, got "${'x'.repeat(60)}…"`],
    [{ list: [] }, 'list must have at least 1 element, got an empty array'],
    [{ list: [true, 'x'] }, 'list[1] must be true or false, got "x"'],
    [{ either: 5 }, 'either must be a string or an array, got 5'],
    [{ either: [1, {}] }, 'either[1] must be a number, got an object'],
    [{ kind: 'c' }, 'kind must be "a" or "b", got "c"'],
    [{ inner: {} }, 'inner.flag is missing: it must be true or false'],
    [{ inner: [] }, 'inner must be an object, got an empty array'],
    [
      { count: 0, kind: 'c' },
      '2 validation errors: count must be at least 1, got 0; kind must be "a" or "b", got "c"',
    ],
  ])('says of %j what is wrong', (body, message) => {
    expect(messageOf(body)).toBe(message);
  });

  it('takes null for every field that may be left out', () => {
    expect(messageOf({ count: null, share: null, word: null, list: null, either: null })).toBe('accepted');
  });

  it('keeps fields that it does not know', () => {
    expect(parseBody(schema, { other: 1 })).toEqual({ other: 1 });
  });

  it('tells wrong types from wrong values', () => {
    for (const body of [{ count: 'x' }, { either: 5 }, { count: 0, word: 5 }])
      expect(() => parseBody(schema, body)).toThrow(MalformedRequestError);
    expect(() => parseBody(schema, { count: 0 })).toThrow(InvalidRequestError);
  });

  it('shows ten of many errors', () => {
    const withFields = (length: number) =>
      z.object(Object.fromEntries(Array.from({ length }, (_, index) => [`f${index}`, z.string()])));
    expect(() => parseBody(withFields(30), {})).toThrow(/^30 validation errors: (.*; ){10}and 20 more$/);
    expect(() => parseBody(withFields(10), {})).toThrow(
      /^10 validation errors: (.*; ){9}f9 is missing[^;]*$/,
    );
  });

  it('does not look at bodies of very many fields', () => {
    const withFields = (length: number): object =>
      Object.fromEntries(Array.from({ length }, (_, index) => [`f${index}`, 1]));
    expect(messageOf(withFields(1024))).toBe('accepted');
    expect(messageOf(withFields(1025))).toBe('The body must have at most 1024 fields, got 1025');
  });
});
