// Stages that are loaded at the same time.

import { expect, it } from 'vitest';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadStages } from '../../src/models/staged-model.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

it('ask once how long contexts may be, when the weights of all are in memory', async () => {
  const folder = newFolder();
  writeTinyModel(folder);
  const source = openModelSource(folder);
  const places = [1, 2, 3].map(() => ({ ops: new ReferenceOps(), packedCache: null }));
  const fractions: number[] = [];
  const asked: (number | undefined)[] = [];
  const model = await loadStages(source, places, readModelConfig(source), {
    dtype: 'auto',
    maxModelLen: null,
    onProgress: (fraction) => fractions.push(fraction),
    servedLength: async () => {
      asked.push(fractions.at(-1));
      return 32;
    },
  });
  expect(asked).toEqual([1]);
  expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
  expect(model.config.numLayers).toBe(3);
});
