// Prompts of a model whose layers keep states go from GPU to GPU, over emulated ones: the states come with the blocks, also where the layers are in stages.

import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, it, vi } from 'vitest';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { KvEngine } from '../helpers/kv-engine.ts';
import { expectAnswersOfBoth } from './answers-of-both.ts';

beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '2'));
afterAll(() => void vi.unstubAllEnvs());

const FOLDER = fileURLToPath(new URL('../fixtures/goldens/qwen3-next', import.meta.url));
const ON_GPU = { device: 'cuda', dtype: 'bfloat16', maxNumBatchedTokens: 40 } as const;
const PROMPTS = [60, 33].map((length, text) =>
  Array.from({ length }, (_, index) => 3 + ((index * 13 + text * 7) % 90)),
);

it.each([
  ['cuda-ipc', 1],
  ['nccl', 2],
] as const)('over %s, in stages: %i', needsCudaEmulators, async (transport, pipelineParallelSize) => {
  const hfOverrides = { num_hidden_layers: 8 };
  const options = { ...ON_GPU, loadFormat: 'dummy', hfOverrides, pipelineParallelSize } as const;
  const whole = await KvEngine.start(FOLDER, 'kv_producer', { ...options, pipelineParallelSize: 1 });
  const [p, d] = await Promise.all([
    KvEngine.start(FOLDER, 'kv_producer', options, { transport }),
    KvEngine.start(FOLDER, 'kv_consumer', options, { transport }),
  ]);
  try {
    await expectAnswersOfBoth({ whole, p, d }, PROMPTS);
  } finally {
    await Promise.all([p.close(), d.close(), whole.close()]);
  }
});
