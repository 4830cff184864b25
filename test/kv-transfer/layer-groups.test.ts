// Models some of whose layers see a window, with their layers in stages: each stage has some layers of each group, and a block goes to all
// that have some of its own.

import { describe, expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { groupLayers } from '../../src/models/layer-groups.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { writeWindowedModel } from '../helpers/tiny-models.ts';
import { architectureGoldens } from '../models/golden-cases.ts';
import { transferBytes } from './transfer-bytes.ts';

const newFolder = temporaryFolders();

interface Parts {
  readonly stages: number;
  readonly ranks: 1 | 2;
}

function optionsOf({ stages, ranks }: Parts) {
  return { pipelineParallelSize: stages, tensorParallelSize: ranks, numThreads: stages * ranks } as const;
}

async function startPair(folder: string, ofP: Parts, ofD: Parts): Promise<{ p: KvEngine; d: KvEngine }> {
  const p = await KvEngine.start(folder, 'kv_producer', optionsOf(ofP));
  const d = await KvEngine.start(folder, 'kv_consumer', optionsOf(ofD));
  return { p, d };
}

const one = (stages: number): Parts => ({ stages, ranks: 1 });

describe('prompts of layers in groups', needsNative, () => {
  const goldens = architectureGoldens().filter(({ folder }) => {
    const config = readModelConfig(openModelSource(folder));
    const { layerHeads, sharedKeys, layerInputs } = config;
    // Layers that need what others have are in no stages.
    const isDivisible = layerHeads === null && sharedKeys === null && layerInputs === null;
    return isDivisible && groupLayers(config).windows.length > 1;
  });

  it('are of several architectures', () => expect(goldens.length).toBeGreaterThanOrEqual(9));

  describe.each([
    { ofP: 1, ofD: 2 },
    { ofP: 2, ofD: 1 },
    { ofP: 2, ofD: 2 },
  ])('from $ofP stages to $ofD', ({ ofP, ofD }) => {
    it.each(goldens)('go on as the original does: $name', async ({ folder, cases }) => {
      const { p, d } = await startPair(folder, one(ofP), one(ofD));
      try {
        const { ids, greedyIds } = cases.find(({ name }) => name === 'long')!;
        const id = makeRequestId(p.address, d.address);
        expect(await p.answer(id, ids, 1)).toEqual(greedyIds.slice(0, 1));
        expect(await d.answer(id, ids, greedyIds.length)).toEqual(greedyIds);
        const { loadedTokens, recomputed } = d.stats.receive;
        expect(loadedTokens).toBe(ids.length - 1);
        expect(Object.values(recomputed).every((count) => count === 0)).toBe(true);
      } finally {
        await Promise.all([p.close(), d.close()]);
      }
    });
  });

  it.each([
    { ofP: one(4), ofD: one(2) },
    { ofP: one(3), ofD: { stages: 2, ranks: 2 } },
    { ofP: { stages: 2, ranks: 2 }, ofD: one(4) },
  ] as const)(
    'longer than their windows go from $ofP.stages stages of $ofP.ranks to $ofD.stages of $ofD.ranks, no more of them than is seen',
    async ({ ofP, ofD }) => {
      const folder = newFolder();
      writeWindowedModel(folder, 20);
      const whole = await KvEngine.start(folder, 'kv_producer');
      const { p, d } = await startPair(folder, ofP, ofD);
      try {
        expect(p.compatibility.windows).toEqual([null, 20, 20, 20]);
        const prompts = [110, 33, 75].map((length, text) =>
          Array.from({ length }, (_, index) => (index * 13 + text * 7) % 256),
        );
        for (const prompt of prompts) {
          const expected = await whole.answer('alone', prompt, 12);
          const id = makeRequestId(p.address, d.address);
          expect(await p.answer(id, prompt, 1)).toEqual(expected.slice(0, 1));
          expect(await d.answer(id, prompt, 12)).toEqual(expected);
        }
        const { loadedTokens, recomputed, bytes } = d.stats.receive;
        expect(loadedTokens).toBe(prompts.reduce((sum, { length }) => sum + length - 1, 0));
        expect(Object.values(recomputed).every((count) => count === 0)).toBe(true);
        const wanted = prompts.map(({ length }) => transferBytes(p.compatibility, length - 1));
        expect(bytes).toBe(wanted.reduce((sum, size) => sum + size, 0));
      } finally {
        await Promise.all([p.close(), d.close(), whole.close()]);
      }
    },
  );
});
