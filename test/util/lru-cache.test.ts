import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LruCache } from '../../src/util/lru-cache.ts';

const MAX = 10;

it('a cache keeps what was used last, as much of it as fits, and nothing goes for what is larger than all of it', () => {
  const use = fc.record({
    key: fc.integer({ min: 0, max: 5 }),
    size: fc.option(fc.integer({ min: 1, max: 12 })),
  });
  fc.assert(
    fc.property(fc.array(use), (uses) => {
      const cache = new LruCache<number, { size: number }>(MAX, ({ size }) => size);
      let model: [number, { size: number }][] = [];
      for (const { key, size } of uses) {
        const others = model.filter(([known]) => known !== key);
        if (size === null) {
          const found = model.find(([known]) => known === key);
          expect(cache.get(key)).toBe(found?.[1]);
          if (found !== undefined) model = [...others, found];
        } else {
          const value = { size };
          cache.set(key, value);
          model = size > MAX ? others : [...others, [key, value]];
          while (model.reduce((sum, [, it]) => sum + it.size, 0) > MAX) model.shift();
        }
        expect(cache.entries()).toEqual(model);
      }
    }),
  );
});
