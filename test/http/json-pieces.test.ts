import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonText, jsonPieces, lazyList, toJson } from '../../src/http/json-pieces.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

const json = fc.jsonValue({ maxDepth: 5 });

/** The same value with its lists made on the way, as far as lists may be. */
function withLazyLists(value: unknown): unknown {
  if (Array.isArray(value)) return lazyList(value, withLazyLists);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, withLazyLists(field)]));
}

describe('jsonPieces', () => {
  it('writes what JSON.stringify writes', async () => {
    await fc.assert(
      fc.asyncProperty(json, async (value) => {
        expect(await toJson(value)).toBe(JSON.stringify(value));
      }),
    );
    expect(await toJson({ a: undefined, b: [undefined], c: { d: undefined } })).toBe('{"b":[null],"c":{}}');
    expect(await toJson({ a: undefined, b: lazyList([], String), c: {} })).toBe('{"b":[],"c":{}}');
    expect(await toJson({ a: [undefined].values() })).toBe('{"a":[null]}');
  });

  it('writes iterables as lists, whatever is in them', async () => {
    await fc.assert(
      fc.asyncProperty(json, async (value) => {
        expect(await toJson(withLazyLists(value))).toBe(JSON.stringify(value));
      }),
    );
  });

  it('writes JSON that is there as it is, in objects and in iterables', async () => {
    const text = new JsonText('{"id": 12345678901234567890}');
    expect(await toJson({ a: [{ b: text }].values(), c: text })).toBe(
      '{"a":[{"b":{"id": 12345678901234567890}}],"c":{"id": 12345678901234567890}}',
    );
  });

  it('cuts long arrays and lists of long elements into small pieces', () => {
    const ids = Array.from({ length: 100_000 }, (_, index) => index);
    const choices = lazyList(['a', 'b'], (text, index) => ({ index, text, logprobs: { ids } }));
    const pieces = [...jsonPieces({ choices, ids })];
    expect(pieces.join('')).toBe(
      JSON.stringify({
        choices: ['a', 'b'].map((text, index) => ({ index, text, logprobs: { ids } })),
        ids,
      }),
    );
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(20_000);
  });

  it('makes one piece of what cannot be cut, and none behind it', () => {
    expect([...jsonPieces({ text: 'x'.repeat(20_000) })]).toHaveLength(1);
  });

  it('cuts lists of many short elements, too', () => {
    const pieces = [...jsonPieces({ list: lazyList(new Array(5000).fill(1), (one) => one) })];
    expect(Math.max(...pieces.map((piece) => piece.split(',').length))).toBeLessThan(1000);
    expect(pieces.length).toBeLessThan(20);
  });

  it('makes the elements of a list when they are written, and not before', () => {
    let numMade = 0;
    const list = lazyList(new Array(10_000).fill('x'.repeat(100)), (text) => {
      numMade += 1;
      return { text };
    });
    const pieces = jsonPieces({ list });
    expect(numMade).toBe(0);
    pieces.next();
    expect(numMade).toBeGreaterThan(0);
    expect(numMade).toBeLessThan(200);
  });
});

it('toJson leaves turns to others while it makes a long text', async () => {
  const list = lazyList(new Array(40).fill('x'.repeat(20_000)), (text) => {
    busyFor(2);
    return text;
  });
  expect(await turnsDuring(toJson({ list }))).toBeGreaterThanOrEqual(8);
});
