// Embeddings and scores on the CUDA backend, over an emulated driver, against the original implementation.

import { describe, expect, it, vi } from 'vitest';
import { toEmbedding, toScore } from '../../src/engine/pooling/vectors.ts';
import { cosine } from '../helpers/compare.ts';
import { needsCudaEmulator, needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { embeddingCases, pairCases, poolOn, startPoolingCore } from './pooling-models.ts';

/** Fewer texts than there are: the emulation is slow. */
const MOST_TEXTS = 3;

describe('on the CUDA backend', needsCudaEmulator, () => {
  it.each([
    'bert-cls',
    'bert-dense',
    'embedding-gemma',
    'modernbert-cls',
    'qwen3-embedding',
    'xlm-roberta-mean',
  ])('%s gives vectors near those of the original implementation', async (name) => {
    const core = await startPoolingCore(name, { device: 'cuda', dtype: 'bfloat16' });
    const config = core.executor.info.pooling!;
    if (config.task !== 'embed') throw new Error(`${name} does not embed`);
    const texts = embeddingCases(name).slice(0, MOST_TEXTS);
    const vectors = poolOn(
      core,
      texts.map(({ ids }) => ({ promptTokenIds: ids, secondTextStart: null })),
    );
    for (const [index, { values }] of texts.entries()) {
      const vector = toEmbedding(vectors[index]!, config, null);
      expect(cosine(Float32Array.from(vector), Float32Array.from(values))).toBeGreaterThan(0.999);
    }
    core.close();
  });

  it.each(['bert-reranker', 'distilbert-reranker', 'modernbert-reranker', 'qwen3-reranker-seq-cls'])(
    '%s gives scores near those of the original implementation',
    async (name) => {
      const core = await startPoolingCore(name, { device: 'cuda', dtype: 'bfloat16' });
      const config = core.executor.info.pooling!;
      if (config.task !== 'score') throw new Error(`${name} does not score`);
      const pairs = pairCases(name).slice(0, MOST_TEXTS);
      const numbers = poolOn(
        core,
        pairs.map(({ ids, types }) => ({
          promptTokenIds: ids,
          secondTextStart: types === null ? null : types.indexOf(1),
        })),
      );
      for (const [index, { score }] of pairs.entries()) {
        expect(Math.abs(toScore(numbers[index]!, config) - score)).toBeLessThan(0.01);
      }
      core.close();
    },
  );
});

describe('over two GPUs', needsCudaEmulators, () => {
  it.each([
    ['bert-cls', { tensorParallelSize: 2 }],
    ['bert-reranker', { tensorParallelSize: 2 }],
    ['bert-cls', { pipelineParallelSize: 2 }],
    ['qwen3-embedding', { pipelineParallelSize: 2 }],
  ] as const)('%s has the numbers of one with %o', async (name, parts) => {
    vi.stubEnv('SVC_EMULATED_GPUS', '2');
    const prompts = [3, 17].map((length) => ({
      promptTokenIds: Array.from({ length }, (_, i) => 1 + ((5 * i) % 90)),
      secondTextStart: null,
    }));
    const numbers = [];
    for (const [options, numParts] of [[{}, 1] as const, [parts, 2] as const]) {
      const core = await startPoolingCore(name, { device: 'cuda', dtype: 'bfloat16', ...options });
      numbers.push(poolOn(core, prompts));
      expect(core.executor.info.ranks).toHaveLength(numParts);
      core.close();
    }
    expect(numbers[1]).toEqual(numbers[0]);
    vi.unstubAllEnvs();
  });
});

// The last: a GPU that is broken is so for the rest of the process.
describe('a stage whose GPU breaks', needsCudaEmulators, () => {
  it('ends the engine with its name, whatever the stages after it compute', async () => {
    vi.stubEnv('SVC_EMULATED_GPUS', '2');
    const stages = { device: 'cuda', dtype: 'bfloat16', pipelineParallelSize: 2 } as const;
    const core = await startPoolingCore('bert-cls', stages);
    vi.stubEnv('SVC_EMULATED_BROKEN', '0');
    const pool = () => poolOn(core, [{ promptTokenIds: [5, 6, 7], secondTextStart: null }]);
    expect(pool).toThrow(/^pipeline stage 1 of 2 failed: the GPU could not compute/);
    core.close();
    vi.unstubAllEnvs();
  });
});
