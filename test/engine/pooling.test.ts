// Embeddings and scores against the original implementation, and the law that they follow from the text alone.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import type { InferenceEngine, PreparedPooling } from '../../src/engine/inference-engine.ts';
import { planScores } from '../../src/engine/pooling/score-plan.ts';
import { toEmbedding } from '../../src/engine/pooling/vectors.ts';
import { availableBackends } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';
import { embeddingCases, POOLING_MODELS, pairCases, poolingCases, startPooling } from './pooling-models.ts';

const TOLERANCE = 1e-4;

async function withEngine<T>(
  name: string,
  options: Partial<EngineConfig>,
  body: (engine: InferenceEngine) => Promise<T>,
): Promise<T> {
  const engine = await startPooling(name, options);
  try {
    return await body(engine);
  } finally {
    await engine.close();
  }
}

const pairOf = (engine: InferenceEngine, [first, second]: readonly [string, string]) =>
  planScores(engine, { first: [first], second: [second], params: ['first', 'second'] }, {});

describe.each(availableBackends)('on the %s backend', (device) => {
  it.each(POOLING_MODELS)(
    '%s gives the numbers of the original implementation, all texts at once',
    async (name) => {
      await withEngine(name, { device }, async (engine) => {
        const config = engine.expectPooling();
        const embedded = embeddingCases(name).map(async ({ text, ids, values }) => {
          const prepared = await engine.preparePooling({ text }, { param: 'input' });
          expect(prepared.promptTokenIds).toEqual(ids);
          if (config.task !== 'embed') throw new Error(`${name} does not embed`);
          const vector = toEmbedding(await engine.pool(prepared), config, null);
          expect(vector).toHaveLength(values.length);
          for (const [i, value] of values.entries())
            expect(Math.abs(vector[i]! - value)).toBeLessThan(TOLERANCE);
        });
        const scored = pairCases(name).map(async ({ pair, ids, types, score }) => {
          const { prompts, scoresOf } = await pairOf(engine, pair);
          expect(prompts[0]!.promptTokenIds).toEqual(ids);
          if (types !== null) expect(prompts[0]!.secondTextStart).toBe(types.indexOf(1));
          const [actual] = scoresOf([await engine.pool(prompts[0]!)]);
          expect(Math.abs(actual! - score)).toBeLessThan(TOLERANCE);
        });
        await Promise.all([...embedded, ...scored]);
        expect(embedded.length + scored.length).toBe(poolingCases(name).length);
      });
    },
  );
});

/** How a model may be computed: none of it changes a bit. */
const WAYS: readonly Partial<EngineConfig>[] = [
  { numThreads: 2, maxNumSeqs: 256, maxNumBatchedTokens: 8192, enablePrefixCaching: false },
  { numThreads: 1, maxNumSeqs: 256, maxNumBatchedTokens: 8192, enablePrefixCaching: true },
  { numThreads: 2, maxNumSeqs: 3, maxNumBatchedTokens: 64, enablePrefixCaching: true },
];
const FORMATS = [
  { dtype: 'float32' },
  { dtype: 'bfloat16' },
  { quantization: 'int8' },
  { quantization: 'int4' },
] as const;

describe('a text', needsNative, () => {
  describe.each(['bert-cls', 'bert-mean', 'xlm-roberta-mean', 'qwen3-embedding', 'bert-reranker'])(
    'of %s',
    (name) => {
      it.each(FORMATS)(
        'gives the same bytes alone, in any batch and on any number of threads: %o',
        async (format) => {
          const arbitrary = fc.array(
            fc.array(fc.integer({ min: 5, max: 90 }), { minLength: 1, maxLength: 70 }),
            { minLength: 1, maxLength: 12 },
          );
          const [batch] = fc.sample(arbitrary, { numRuns: 1, seed: 7 });
          // One that others begin like, and one that all must wait for.
          const prompts = [
            ...batch!,
            batch![0]!.slice(0, 40),
            Array.from({ length: 96 }, (_, i) => 5 + (i % 60)),
          ];
          const results: Float32Array[][] = [];
          for (const way of WAYS) {
            results.push(
              await withEngine(name, { ...format, ...way }, async (engine) => {
                const prepared = await Promise.all(
                  prompts.map((tokenIds) => engine.preparePooling({ tokenIds }, { param: 'input' })),
                );
                const alone: Float32Array[] = [];
                for (const one of prepared) alone.push(await engine.pool(one));
                expect(await Promise.all(prepared.map((one) => engine.pool(one)))).toEqual(alone);
                return alone;
              }),
            );
          }
          for (const result of results) expect(result).toEqual(results[0]);
          expect(results[0]![0]).not.toEqual(results[0]![1]);
        },
      );
    },
  );

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
      });
      const tokenIds = Array.from({ length: 100 }, () => 7);
      await engine.pool(await engine.preparePooling({ tokenIds }, { param: 'input' }));
      expect(steps).toEqual([100]);
    });
  });

  it('whose request is aborted frees what it held, and others go on', async () => {
    await withEngine('bert-cls', { maxNumSeqs: 2 }, async (engine) => {
      const prepare = (length: number): Promise<PreparedPooling> =>
        engine.preparePooling({ tokenIds: Array.from({ length }, () => 9) }, { param: 'input' });
      const controller = new AbortController();
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
