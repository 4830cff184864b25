// Embeddings and scores against the original implementation, and the law that they follow from the text alone.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import type { EngineCore } from '../../src/engine/engine-core.ts';
import type { InferenceEngine, PreparedPooling } from '../../src/engine/inference-engine.ts';
import { cosine, toEmbedding, toScore } from '../../src/engine/pooling/vectors.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { sharedAbortController } from '../../src/util/abortable.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { availableBackends } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';
import { newRequest } from '../helpers/new-request.ts';
import { untilPacked } from '../helpers/packed-files.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import {
  embeddingCases,
  expectOriginalTokens,
  POOLING_MODELS,
  pairCases,
  poolingCases,
  poolingFolder,
  poolOn,
  startPooling,
  startPoolingCore,
} from './pooling-models.ts';

const TOLERANCE = 1e-4;
const newFolder = temporaryFolders();

it.each(POOLING_MODELS)(
  'texts and pairs of %s become the tokens of the original implementation',
  async (name) => {
    const { tokenizer } = await loadTokenizer(new FolderFiles(poolingFolder(name)));
    await expectOriginalTokens(tokenizer, name);
    await tokenizer.close();
  },
);

async function withCore<T>(
  name: string,
  options: Partial<EngineConfig>,
  body: (core: EngineCore) => T | Promise<T>,
): Promise<T> {
  const core = await startPoolingCore(name, options);
  try {
    return await body(core);
  } finally {
    core.close();
  }
}

describe.each(availableBackends)('on the %s backend', (device) => {
  it.each(POOLING_MODELS)(
    '%s gives the numbers of the original implementation, all texts at once',
    async (name) => {
      await withCore(name, { device }, (core) => {
        const config = core.executor.info.pooling!;
        const promptsOf = (types: readonly number[] | null, promptTokenIds: readonly number[]) => ({
          promptTokenIds,
          secondTextStart: types === null ? null : types.indexOf(1),
        });
        const [texts, pairs] = [embeddingCases(name), pairCases(name)];
        const vectors = poolOn(
          core,
          texts.map(({ ids }) => promptsOf(null, ids)),
        );
        for (const [index, { values }] of texts.entries()) {
          if (config.task !== 'embed') throw new Error(`${name} does not embed`);
          const vector = toEmbedding(vectors[index]!, config, null);
          expect(vector).toHaveLength(values.length);
          for (const [i, value] of values.entries())
            expect(Math.abs(vector[i]! - value)).toBeLessThan(TOLERANCE);
        }
        const numbers = poolOn(
          core,
          pairs.map(({ ids, types }) => promptsOf(types, ids)),
        );
        for (const [index, { score }] of pairs.entries()) {
          if (config.task !== 'score') throw new Error(`${name} does not score`);
          expect(Math.abs(toScore(numbers[index]!, config) - score)).toBeLessThan(TOLERANCE);
        }
        expect(texts.length + pairs.length).toBeGreaterThan(3);
      });
    },
  );
});

/** Whose keys and values have one head. */
const CANNOT_BE_SHARED = 'embedding-gemma';

/** How a model can be in parts: ranks, stages, and stages of ranks. */
const PARTS = [
  { dtype: 'float32', tensorParallelSize: 2, pipelineParallelSize: 1 },
  { dtype: 'bfloat16', tensorParallelSize: 1, pipelineParallelSize: 2 },
  { dtype: 'bfloat16', tensorParallelSize: 2, pipelineParallelSize: 2 },
] as const;

/** Of two models whose layers are alike, and what is made of the last one's rows, one. */
const IN_PARTS = POOLING_MODELS.filter(
  (name) => !['bert-cls', 'roberta-bare', 'distilbert-mean', 'modernbert-cls', 'gte-cls'].includes(name),
);

describe.each(IN_PARTS)('%s', (name) => {
  it.each(PARTS.filter((parts) => name !== CANNOT_BE_SHARED || parts.tensorParallelSize === 1))(
    'has the same bits in parts: %o',
    needsNative,
    async ({ dtype, ...parts }) => {
      const prompts = poolingCases(name).map((one) => ({
        promptTokenIds: one.ids,
        secondTextStart: 'types' in one && one.types !== null ? one.types.indexOf(1) : null,
      }));
      const numParts = parts.tensorParallelSize * parts.pipelineParallelSize;
      const options = { device: 'cpu', numThreads: numParts, dtype, maxNumBatchedTokens: 64 } as const;
      const expected = await withCore(name, options, (core) => poolOn(core, prompts));
      const actual = await withCore(name, { ...options, ...parts }, (core) => {
        expect(core.executor.info.ranks).toHaveLength(numParts);
        return poolOn(core, prompts);
      });
      expect(actual).toEqual(expected);
    },
  );
});

describe('in stages', needsNative, () => {
  const IN_STAGES = { device: 'cpu', numThreads: 2, pipelineParallelSize: 2 } as const;
  const prompt = { promptTokenIds: [5, 6, 7], secondTextStart: null };

  it.each(['bert-cls', 'qwen3-embedding'])(
    'packed weights of each are kept for the next start: %s',
    async (name) => {
      const packedCache = newFolder();
      const options = { ...IN_STAGES, packedCache, dtype: 'bfloat16' } as const;
      const starts: (readonly [boolean, readonly Float32Array[]])[] = [];
      for (const _ of [1, 2]) {
        const start = await withCore(name, options, async (core) => {
          // An engine that is closed writes no more.
          await untilPacked(packedCache, 2);
          return [core.executor.info.isFromPackedCache, poolOn(core, [prompt])] as const;
        });
        starts.push(start);
      }
      expect(starts).toEqual([
        [false, starts[0]![1]],
        [true, starts[0]![1]],
      ]);
    },
  );

  it('a stage that fails is named', async () => {
    await withCore('bert-cls', IN_STAGES, ({ scheduler, executor }) => {
      const { promptTokenIds } = prompt;
      const request = newRequest({ id: 1, promptTokenIds, stop: { maxTokens: 1 } });
      scheduler.add({ ...request, pooling: { secondTextStart: null } });
      const step = scheduler.schedule();
      const steps = Array.from({ length: 500 }, (_, index) => index);
      // More steps than stages, of which none is read: there is no room for the next.
      for (const index of steps) {
        executor.forward({ ...step, releasedRequestIds: index === 0 ? [] : [1] }, 0);
        executor.sample([]);
      }
      expect(() => {
        for (const _ of steps) executor.read();
      }).toThrow(/^pipeline stage 1 of 2 failed: a pipeline stage is given more steps/);
    });
  });
});

it('refuses ranks for a model whose heads they cannot share', needsNative, async () => {
  const starting = startPoolingCore(CANNOT_BE_SHARED, {
    device: 'cpu',
    numThreads: 2,
    tensorParallelSize: 2,
  });
  await expect(starting).rejects.toThrow("does not divide the model's 1 heads of keys and values: use 1");
});

it('a cosine is no more than 1, however its sums are rounded', () => {
  fc.assert(
    fc.property(fc.float32Array({ minLength: 1, noNaN: true, noDefaultInfinity: true }), (vector) => {
      const opposite = vector.map((value) => -value);
      expect(cosine(vector, vector)).toBeLessThanOrEqual(1);
      expect(cosine(vector, opposite)).toBeGreaterThanOrEqual(-1);
    }),
  );
});

/** How a model may be computed: none of it changes a bit. */
const WAYS: readonly Partial<EngineConfig>[] = [
  { numThreads: 2, maxNumSeqs: 256, maxNumBatchedTokens: 8192, enablePrefixCaching: false },
  { numThreads: 1, maxNumSeqs: 3, maxNumBatchedTokens: 64, enablePrefixCaching: true },
  { numThreads: 2, maxNumSeqs: 256, maxNumBatchedTokens: 64, pipelineParallelSize: 2 },
];
const FORMATS = [
  { dtype: 'float32' },
  { dtype: 'bfloat16' },
  { quantization: 'int8' },
  { quantization: 'int4' },
] as const;

/** A model of each kind of attention, norms and head. */
const INVARIANT = [
  'bert-mean',
  'xlm-roberta-mean',
  'qwen3-embedding',
  'embedding-gemma',
  'modernbert-reranker',
];

async function withEngine(
  name: string,
  options: Partial<EngineConfig>,
  body: (engine: InferenceEngine) => Promise<void>,
): Promise<void> {
  const engine = await startPooling(name, options);
  try {
    await body(engine);
  } finally {
    await engine.close();
  }
}

describe('a text', needsNative, () => {
  const ids = fc.array(fc.integer({ min: 5, max: 90 }), { minLength: 1, maxLength: 70 });

  describe.each(INVARIANT)('of %s', (name) => {
    it.each(FORMATS)(
      'gives the same bytes alone, in any batch, in stages and on any number of threads: %o',
      async (format) => {
        const cores = await Promise.all(WAYS.map((way) => startPoolingCore(name, { ...format, ...way })));
        const prompts = fc.array(ids, { minLength: 2, maxLength: 12 });
        fc.assert(
          fc.property(prompts, ids, (lists, beginning) => {
            // Two begin alike, and one is longer than a step of the last ways.
            const all = [
              ...lists,
              beginning,
              [...beginning, 7],
              Array.from({ length: 96 }, (_, i) => 5 + (i % 60)),
            ];
            const batch = all.map((promptTokenIds, index) => ({
              promptTokenIds,
              secondTextStart: index % 2 === 0 ? null : Math.floor(promptTokenIds.length / 2),
            }));
            const alone = batch.map((one) => poolOn(cores[0]!, [one])[0]!);
            for (const core of cores) expect(poolOn(core, batch)).toEqual(alone);
          }),
          { numRuns: 8 },
        );
        for (const core of cores) core.close();
      },
    );
  });

  it('of an embedding model that sees what came before takes the beginning from the prefix cache', async () => {
    await withEngine('qwen3-embedding', {}, async (engine) => {
      const tokenIds = Array.from({ length: 60 }, (_, i) => 5 + i);
      const prepared = await engine.preparePooling({ tokenIds }, { param: 'input' });
      const first = await engine.pool(prepared);
      expect(await engine.pool(prepared)).toEqual(first);
      expect((await engine.stats()).prefixCacheHits).toBe(48);
    });
  });

  it('of an encoder takes nothing from a cache, and leaves no block behind', async () => {
    await withEngine('bert-cls', {}, async (engine) => {
      const tokenIds = Array.from({ length: 60 }, (_, i) => 5 + i);
      const prepared = await engine.preparePooling({ tokenIds }, { param: 'input' });
      await engine.pool(prepared);
      await engine.pool(prepared);
      const { prefixCacheHits, prefixCacheQueries, freeBlocks, numBlocks, promptTokens } =
        await engine.stats();
      expect({ prefixCacheHits, prefixCacheQueries, promptTokens }).toEqual({
        prefixCacheHits: 0,
        prefixCacheQueries: 0,
        promptTokens: 120,
      });
      expect(freeBlocks).toBe(numBlocks);
    });
  });

  it('of an encoder is computed in one step even where that is longer than --max-num-batched-tokens', async () => {
    await withEngine('bert-cls', { maxNumBatchedTokens: 16 }, async (engine) => {
      const steps: number[] = [];
      engine.observe({
        step: (numTokens) => steps.push(numTokens),
        prompt: () => {},
        firstToken: () => {},
        nextToken: () => {},
        sampleEnded: () => {},
        promptEnded: () => {},
      });
      const tokenIds = Array.from({ length: 100 }, () => 7);
      await engine.pool(await engine.preparePooling({ tokenIds }, { param: 'input' }));
      expect(steps).toEqual([100]);
    });
  });

  it('of a request with as many as there may be all end when the engine does', async () => {
    await withEngine('bert-cls', { maxNumSeqs: 2 }, async (engine) => {
      const prompt = await engine.preparePooling({ tokenIds: new Array(100).fill(9) }, { param: 'input' });
      const ticket = engine.admission.open('caller', 2048);
      const running = Array.from({ length: 2048 }, () => engine.pool(prompt, undefined, ticket));
      const settled = Promise.allSettled(running);
      await engine.close();
      const ends = await settled;
      expect(ends.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(2000);
    });
  });

  it('whose request is aborted frees what it held, and others go on', async () => {
    await withEngine('bert-cls', { maxNumSeqs: 2 }, async (engine) => {
      const prepare = (length: number): Promise<PreparedPooling> =>
        engine.preparePooling({ tokenIds: Array.from({ length }, () => 9) }, { param: 'input' });
      const controller = sharedAbortController();
      const doomed = await Promise.all(Array.from({ length: 60 }, async () => prepare(120)));
      const running = doomed.map((one) => engine.pool(one, controller.signal));
      const settled = Promise.allSettled(running);
      const other = engine.pool(await prepare(20));
      controller.abort(new Error('nobody wants it'));
      const reasons = (await settled).flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
      expect(reasons.length).toBeGreaterThan(0);
      expect(new Set(reasons)).toEqual(new Set([controller.signal.reason]));
      expect(await other).toHaveLength(32);
      await expect.poll(async () => (await engine.stats()).freeBlocks).toBe(engine.info.numBlocks);
      await expect(engine.pool(doomed[0]!, controller.signal)).rejects.toBe(controller.signal.reason);
    });
  });
});

it('tokenises no prompt of a request that has been given up', async () => {
  const engine = await startPooling('bert-mean');
  const signal = AbortSignal.abort(new Error('gone'));
  await expect(engine.preparePooling({ text: 'a cat' }, { param: 'input', signal })).rejects.toThrow('gone');
  await engine.close();
});
