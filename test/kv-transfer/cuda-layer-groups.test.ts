// Prompts of models some of whose layers see a window, or have heads of their own, go from GPU to GPU, over emulated ones: also where layers are in stages.

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { writeHeadsModel, writeWindowedModel } from '../helpers/tiny-models.ts';
import { expectAnswersOfBoth } from './answers-of-both.ts';

const newFolder = temporaryFolders();
const [windowed, withHeads] = [newFolder(), newFolder()];
beforeAll(() => {
  writeWindowedModel(windowed, 20);
  writeHeadsModel(withHeads);
});
beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '2'));
afterAll(() => void vi.unstubAllEnvs());

const ON_GPU = { device: 'cuda', dtype: 'bfloat16', maxNumBatchedTokens: 40 } as const;
/** Longer than the window, which is one block and a part of another. */
const PROMPTS = [90, 33, 50].map((length, text) =>
  Array.from({ length }, (_, index) => 3 + ((index * 13 + text * 7) % 93)),
);

describe.each(['cuda-ipc', 'nccl'] as const)('prompts of layers in groups over %s', (transport) => {
  it.each([
    { what: 'windows', folder: windowed, ofP: 1, ofD: 1 },
    { what: 'windows', folder: windowed, ofP: 2, ofD: 1 },
    { what: 'windows', folder: windowed, ofP: 1, ofD: 2 },
    { what: 'heads', folder: withHeads, ofP: 1, ofD: 1 },
    { what: 'heads', folder: withHeads, ofP: 2, ofD: 2 },
  ])(
    'with $what of their own go from $ofP stages to $ofD',
    needsCudaEmulators,
    async ({ folder, ofP, ofD }) => {
      const whole = await KvEngine.start(folder, 'kv_producer', ON_GPU);
      const [p, d] = await Promise.all([
        KvEngine.start(folder, 'kv_producer', { ...ON_GPU, pipelineParallelSize: ofP }, { transport }),
        KvEngine.start(folder, 'kv_consumer', { ...ON_GPU, pipelineParallelSize: ofD }, { transport }),
      ]);
      try {
        await expectAnswersOfBoth({ whole, p, d }, PROMPTS);
        // D may have the last bytes before they are counted.
        await expect.poll(() => p.stats.send.bytesOver[transport]).toBe(d.stats.receive.bytes);
      } finally {
        await Promise.all([p.close(), d.close(), whole.close()]);
      }
    },
  );
});
