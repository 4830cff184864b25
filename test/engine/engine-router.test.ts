// Where prompts go among several engines: integers only.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineRouter, type Route, type RoutedPrompt } from '../../src/engine/engine-router.ts';
import { PrefixIndex, prefixHashes } from '../../src/engine/prefix-index.ts';
import { adapterKeys } from '../../src/kv-cache/prefix-hash.ts';

const BLOCK = 4;
const CONFIG = { numEngines: 3, blockSize: BLOCK, numBlocks: 1000, enablePrefixCaching: true };
const ANSWER = 128;

/** `length` tokens of a text of its own. */
function textOf(text: number, length: number): number[] {
  return Array.from({ length }, (_, index) => text * 1000 + index);
}

function prompt(promptTokenIds: number[], options: Partial<RoutedPrompt> = {}): RoutedPrompt {
  return { promptTokenIds, extraKeys: [], numSequences: 1, readsCache: true, ...options };
}

describe('a router', () => {
  it('gives prompts that have nothing in common to the engines in turn', () => {
    const router = new EngineRouter(CONFIG);
    const ranks = [0, 1, 2, 3, 4, 5].map((text) => router.route(prompt(textOf(text, 8)), null).rank);
    expect(ranks).toEqual([0, 1, 2, 0, 1, 2]);
  });

  it('gives them in turn where each has ended before the next comes, too', () => {
    const router = new EngineRouter(CONFIG);
    const ranks = [0, 1, 2, 3].map((text) => {
      const route = router.route(prompt(textOf(text, 8)), null);
      route.leave();
      return route.rank;
    });
    expect(ranks).toEqual([0, 1, 2, 0]);
  });

  it('counts long prompts, and the sequences of a prompt', () => {
    const router = new EngineRouter({ ...CONFIG, numEngines: 2 });
    expect(router.route(prompt(textOf(0, 1000)), null).rank).toBe(0);
    expect(router.route(prompt(textOf(1, 10), { numSequences: 5 }), null).rank).toBe(1);
    // 1128 against 650: two more of 260 fit there.
    expect([2, 3, 4].map((text) => router.route(prompt(textOf(text, 132)), null).rank)).toEqual([1, 1, 0]);
  });

  it('sends a prompt to where its beginning is', () => {
    const router = new EngineRouter(CONFIG);
    const beginning = textOf(0, 400);
    router.route(prompt(textOf(1, 8)), null).leave();
    const { rank, leave } = router.route(prompt(beginning), null);
    leave();
    for (let turn = 0; turn < 4; turn++) {
      const next = router.route(prompt([...beginning, ...textOf(7 + turn, 20)]), null);
      expect(next.rank).toBe(rank);
      next.leave();
    }
  });

  it('sends it elsewhere where more is to be done first than the beginning saves', () => {
    const router = new EngineRouter({ ...CONFIG, numEngines: 2 });
    const beginning = textOf(0, 200);
    const ranks = Array.from({ length: 4 }, () => router.route(prompt(beginning), null).rank);
    // 0 has 328 to do, of which 200 are for all: one more of 128 is as much as a prompt of 328 elsewhere.
    expect(ranks).toEqual([0, 1, 0, 1]);
  });

  it.each([
    ['another adapter', { extraKeys: adapterKeys('other') }],
    ['log-probabilities of the prompt', { readsCache: false }],
  ])('finds no beginning for %s', (_, options) => {
    const router = new EngineRouter(CONFIG);
    router.route(prompt(textOf(0, 400)), null).leave();
    expect(router.route(prompt(textOf(0, 400), options), null).rank).toBe(1);
  });

  it('finds none where there is no prefix cache, or what it held is forgotten', () => {
    const router = new EngineRouter(CONFIG);
    const without = new EngineRouter({ ...CONFIG, enablePrefixCaching: false });
    for (const each of [router, without]) each.route(prompt(textOf(0, 400)), null).leave();
    router.forgetPrefixes();
    for (const each of [router, without]) {
      expect(each.route(prompt(textOf(0, 400)), null).rank).toBe(1);
    }
  });

  it('gives the engine that is asked for, and counts that', () => {
    const router = new EngineRouter({ ...CONFIG, numEngines: 2 });
    expect(router.route(prompt(textOf(0, 400)), 1).rank).toBe(1);
    expect(router.route(prompt(textOf(1, 400)), 1).rank).toBe(1);
    expect(router.route(prompt(textOf(2, 8)), null).rank).toBe(0);
  });

  it('never gives a prompt to an engine that has more to do than another by more than what its cache saves', () => {
    const parts = fc.record({
      text: fc.nat(3),
      length: fc.integer({ min: 1, max: 60 }),
      numSequences: fc.integer({ min: 1, max: 4 }),
      ends: fc.nat(20),
    });
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 60 }), (all) => {
        const router = new EngineRouter(CONFIG);
        const loads = [0, 0, 0];
        const open: { route: Route; work: number }[] = [];
        const seen = [0, 1, 2].map(() => new Map<number, number>());
        for (const { text, length, numSequences, ends } of all) {
          const known = seen.map((texts) => Math.min(texts.get(text) ?? 0, length - (length % BLOCK)));
          const costs = known.map((tokens, rank) => loads[rank]! + length - tokens);
          const route = router.route(prompt(textOf(text, length), { numSequences }), null);
          const { rank } = route;
          expect(costs[rank]).toBe(Math.min(...costs));
          const work = length - known[rank]! + numSequences * ANSWER;
          loads[rank]! += work;
          seen[rank]!.set(text, Math.max(seen[rank]!.get(text) ?? 0, length - (length % BLOCK)));
          open.push({ route, work });
          const ended = open.splice(ends, 1)[0];
          // Twice: the second time it does nothing.
          ended?.route.leave();
          ended?.route.leave();
          if (ended !== undefined) loads[ended.route.rank]! -= ended.work;
        }
      }),
    );
  });
});

describe('an index of prefixes', () => {
  it('knows as many blocks as it was told of from the beginning', () => {
    const index = new PrefixIndex(100);
    const of = (tokens: number[]) => prefixHashes({ promptTokenIds: tokens, extraKeys: [] }, BLOCK);
    index.add(of(textOf(0, 11)));
    expect(index.size).toBe(2);
    expect(index.numKnown(of(textOf(0, 40)))).toBe(2);
    expect(index.numKnown(of([...textOf(0, 4), ...textOf(1, 8)]))).toBe(1);
    expect(index.numKnown(of(textOf(0, 11).toReversed()))).toBe(0);
  });

  it('is as large as the cache, and forgets ends before beginnings, the least recent first', () => {
    const index = new PrefixIndex(6);
    const of = (text: number, blocks: number) =>
      prefixHashes({ promptTokenIds: textOf(text, blocks * BLOCK), extraKeys: [] }, BLOCK);
    index.add(of(0, 4));
    index.add(of(1, 4));
    expect(index.size).toBe(6);
    expect(index.numKnown(of(0, 4))).toBe(2);
    expect(index.numKnown(of(1, 4))).toBe(4);
    index.add(of(2, 1000));
    expect(index.size).toBe(6);
    expect(index.numKnown(of(2, 1000))).toBe(6);
  });
});
