// The loop body by itself: what a step launches, and when the one before it is finished.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { EngineCore } from '../../src/engine/engine-core.ts';
import { probeNative } from '../../src/native/native.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { newRequest } from '../helpers/new-request.ts';

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-core-'));
  await writeTinyModel(folder, { seed: 1, config: { max_position_embeddings: 2048 } });
});
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(probeNative() === null ? ['reference' as const] : ['reference' as const, 'cpu' as const])(
  'the engine core on %s',
  (device) => {
    let core: EngineCore;
    beforeEach(async () => {
      const size = { kvCacheMemoryBytes: 2 ** 21, maxNumBatchedTokens: 900 };
      const config = { ...ENGINE_DEFAULTS, ...size, modelPath: folder, device };
      core = await EngineCore.start(config);
    });
    afterEach(() => core.close());

    /** One step, as the engine thread makes it. */
    function step(): (readonly [requestId: number, tokenId: number])[] {
      core.awaitPlanPoint();
      const outputs = (core.step() ?? []).flatMap((finished) => finished.outputs);
      return outputs.flatMap(({ requestId, tokenIds }) => tokenIds.map((id) => [requestId, id] as const));
    }

    it('finishes a step when the next one has been launched', () => {
      core.scheduler.add(newRequest({ id: 1, stop: { maxTokens: 2 } }));
      expect(step()).toEqual([]);
      expect(step()).toMatchObject([[1, expect.any(Number)]]);
      expect(core.hasUnfinished).toBe(true);
      expect(step()).toMatchObject([[1, expect.any(Number)]]);
      expect(core.hasUnfinished).toBe(false);
    });

    it('takes a request that comes while a step runs into the next one', () => {
      core.scheduler.add(newRequest({ id: 1 }));
      step();
      core.scheduler.add(newRequest({ id: 2 }));
      expect(step()).toMatchObject([[1, expect.any(Number)]]);
      expect(step()).toMatchObject([
        [1, expect.any(Number)],
        [2, expect.any(Number)],
      ]);
    });

    it('says nothing more of a request that an end token ended, and frees its blocks with the step after it', () => {
      core.scheduler.add(newRequest({ id: 1, stop: { maxTokens: 1 } }));
      step();
      const first = step()[0]![1];
      core.scheduler.add(newRequest({ id: 2, stop: { eosTokenId: first } }));
      step();
      expect(step()).toEqual([[2, first]]);
      expect(core.stats.freeBlocks).toBe(core.stats.numBlocks - 1);
      expect(core.hasUnfinished).toBe(true);
      expect(step()).toEqual([]);
      expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
      expect(core.hasUnfinished).toBe(false);
    });

    it('frees the blocks of an aborted request after the steps that compute it', () => {
      core.scheduler.add(newRequest({ id: 1 }));
      step();
      step();
      core.scheduler.abort(1);
      expect(core.stats.freeBlocks).toBeLessThan(core.stats.numBlocks);
      expect(step()).toEqual([]);
      expect(core.stats.freeBlocks).toBe(core.stats.numBlocks);
      expect(core.step()).toBeNull();
    });

    it('frees the blocks of one that is aborted in the middle of its prompt once nothing is computed any more', async () => {
      core.scheduler.add(newRequest({ id: 1, promptTokenIds: new Array<number>(1000).fill(1) }));
      step();
      core.scheduler.abort(1);
      expect(core.stats.freeBlocks).toBeLessThan(core.stats.numBlocks);
      step();
      const { freeBlocks, numBlocks } = core.stats;
      expect(freeBlocks).toBe(numBlocks);
      expect(core.hasUnfinished).toBe(false);
      expect(core.step()).toBeNull();
    });
  },
);
