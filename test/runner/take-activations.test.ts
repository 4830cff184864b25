// What the largest steps take of a GPU is what steps find there later: their KV cache is given back.

import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { takeActivations } from '../../src/runner/take-activations.ts';
import { needsCudaEmulator, openCuda } from '../helpers/cuda-emulator.ts';
import { goldenFolder } from '../models/golden-cases.ts';

const LIMITS = {
  maxNumBatchedTokens: 24,
  maxNumSeqs: 4,
  maxModelLen: 64,
  hasAdapters: false,
  speculative: null,
};

describe.each([
  ['qwen3', 'FLASH_ATTN', false],
  ['qwen3', 'FLASHINFER', true],
  ['qwen3-next', 'FLASH_ATTN', false],
])('the largest steps of %s with %s', (name, _, isScheduled) => {
  it('take their memory once, and nothing that they leave unused', needsCudaEmulator, async () => {
    const ops = openCuda(isScheduled);
    const source = openModelSource(goldenFolder(name));
    const model = await loadModel(source, ops, { dtype: 'bfloat16', maxModelLen: 64 });
    const design = { shape: model.kvCacheShape({ blocks: 1, blockSize: 16, sequences: 4 }), windows: [null] };
    const taken = Array.from({ length: 8 }, () => takeActivations([ops], model, design, LIMITS)[0]!);
    expect(taken[0]).toBeGreaterThan(0);
    // A few times it may still be room for more numbers on their way to the device at once.
    expect(Math.min(...taken)).toBe(0);
    ops.close();
  });
});
