import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { preview, shortened, summary } from '../../src/util/preview.ts';
import { collectGarbage } from '../helpers/collect-garbage.ts';

describe('shortened', () => {
  it('gives a short text back, and of a long one the beginning with an ellipsis', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), fc.nat({ max: 30 }), (text, maxLength) => {
        const short = shortened(text, maxLength);
        if (text.length <= maxLength) expect(short).toBe(text);
        else expect(text.startsWith(short.slice(0, -1)) && short.endsWith('…')).toBe(true);
        expect(short.length).toBeLessThanOrEqual(maxLength + 1);
        expect(short).not.toMatch(/\p{Surrogate}/u);
      }),
    );
  });

  it('does not keep the long text in memory', () => {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const kept = Array.from({ length: 10 }, (_, index) => shortened(String(index).padEnd(4_000_000, 'x')));
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(4_000_000);
    expect(kept[9]).toMatch(/^9x+…$/);
  });
});

describe('preview', () => {
  it.each([
    ['text', '"text"'],
    ['x'.repeat(100), `"${'x'.repeat(60)}…"`],
    [[], 'an empty array'],
    [[1, 2], 'an array of 2'],
    [new Int32Array(3), 'an array of 3'],
    [{ a: 1 }, 'an object'],
    [null, 'null'],
    [1.5, '1.5'],
  ])('tells what a value is, number %#', (value, shown) => {
    expect(preview(value)).toBe(shown);
  });
});

describe('summary', () => {
  it('keeps what is short as it is', () => {
    const params = { n: 1, stop: ['a'], logit_bias: { 5: 1 }, seed: null };
    expect(summary(params)).toEqual(params);
  });

  it('counts what is many and shortens what is long', () => {
    const many = { stop: ['x'.repeat(100)], ids: Array(1000).fill(1), map: { ['k'.repeat(90)]: 1 } };
    expect(summary(many)).toEqual({
      stop: [`${'x'.repeat(60)}…`],
      ids: 'an array of 1000',
      map: { [`${'k'.repeat(60)}…`]: 1 },
    });
  });
});
