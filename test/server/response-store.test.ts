import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ResponseObject, responseFields } from '../../src/server/responses/response-object.ts';
import { ResponseStore } from '../../src/server/responses/response-store.ts';

const LIMITS = { maxResponses: 5, maxBytes: 100, maxAgeMs: 50 };

function response(id: string): ResponseObject {
  const fields = responseFields(
    { id, created: 0, model: 'tiny' },
    { input: '' },
    { temperature: 1, top_p: 1 },
  );
  return { ...fields, status: 'completed', error: null, incomplete_details: null, output: [] };
}

/** What a store must hold: as simple as can be. */
interface Kept {
  readonly owner: string;
  readonly id: string;
  readonly numBytes: number;
  readonly at: number;
}

const owner = fc.constantFrom('', 'key:a', 'key:b');
const id = fc.constantFrom('r1', 'r2', 'r3', 'r4');
/** Many small ones, too, so that their number is the limit. */
const numBytes = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 120 }));
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ does: fc.constant('put' as const), owner, id, numBytes }) },
  fc.record({ does: fc.constant('delete' as const), owner, id }),
  fc.record({ does: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40 }) }),
);

describe('a store of responses', () => {
  it('holds the latest ones within its number, its bytes and their age, each for its owner alone', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let now = 0;
        const store = new ResponseStore(LIMITS, () => now);
        let kept: Kept[] = [];
        const total = (): number => kept.reduce((sum, { numBytes }) => sum + numBytes, 0);
        for (const one of steps) {
          if (one.does === 'wait') now += one.ms;
          else kept = kept.filter((it) => it.owner !== one.owner || it.id !== one.id);
          kept = kept.filter(({ at }) => now - at <= LIMITS.maxAgeMs);
          if (one.does === 'delete') store.delete(one.owner, one.id);
          if (one.does === 'put') {
            store.put(one.owner, { response: response(one.id), input: [], numBytes: one.numBytes });
            if (one.numBytes <= LIMITS.maxBytes) kept.push({ ...one, at: now });
            while (kept.length > LIMITS.maxResponses || total() > LIMITS.maxBytes) kept.shift();
          }
          for (const who of ['', 'key:a', 'key:b']) {
            for (const which of ['r1', 'r2', 'r3', 'r4']) {
              const found = store.get(who, which);
              const expected = kept.find((it) => it.owner === who && it.id === which);
              expect(found?.numBytes).toBe(expected?.numBytes);
            }
          }
          expect([store.size, store.numBytes]).toEqual([kept.length, total()]);
        }
      }),
    );
  });

  it('gives up what is too old when others come, though nobody asks for any', () => {
    let now = 0;
    const store = new ResponseStore(LIMITS, () => now);
    for (const id of ['r1', 'r2']) {
      store.put('', { response: response(id), input: [], numBytes: 1 });
      now += LIMITS.maxAgeMs + 1;
    }
    expect([store.size, store.numBytes]).toEqual([1, 1]);
  });
});
