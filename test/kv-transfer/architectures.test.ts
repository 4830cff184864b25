// The prompt of each architecture from one engine to another, in one process: with its blocks the other one goes on as the
// original implementation does.

import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { needsNative } from '../helpers/needs.ts';
import { architectureGoldens } from '../models/golden-cases.ts';

describe('from one engine to another', needsNative, () => {
  it.each(architectureGoldens())(
    'the prompts of $name go on as the original does',
    async ({ folder, cases }) => {
      const p = await KvEngine.start(folder, 'kv_producer');
      const d = await KvEngine.start(folder, 'kv_consumer');
      try {
        for (const { ids, greedyIds } of cases) {
          const id = makeRequestId(p.address, d.address);
          expect(await p.answer(id, ids, 1)).toEqual(greedyIds.slice(0, 1));
          expect(await d.answer(id, ids, greedyIds.length)).toEqual(greedyIds);
        }
        const { loadedTokens, recomputed } = d.stats.receive;
        expect(loadedTokens).toBeGreaterThanOrEqual(32);
        expect(Object.values(recomputed).every((count) => count === 0)).toBe(true);
      } finally {
        await Promise.all([p.close(), d.close()]);
      }
    },
  );

  it('nothing goes where long contexts are stretched by another length', async () => {
    const { folder, cases } = architectureGoldens().find(({ name }) => name === 'phi3-longrope')!;
    const { ids, greedyIds } = cases.find(({ name }) => name === 'long')!;
    const p = await KvEngine.start(folder, 'kv_producer', { maxModelLen: 58 });
    const d = await KvEngine.start(folder, 'kv_consumer', { maxModelLen: 64 });
    try {
      const id = makeRequestId(p.address, d.address);
      await p.answer(id, ids, 1);
      expect(await d.answer(id, ids, greedyIds.length)).toEqual(greedyIds);
      expect(d.stats.receive.loadedTokens).toBe(0);
    } finally {
      await Promise.all([p.close(), d.close()]);
    }
  });
});
