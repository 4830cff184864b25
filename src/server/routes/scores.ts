// POST /score: how well pairs of texts fit together. POST /rerank: documents in the order of how well they fit a query.

import { planScores } from '../../engine/pooling/score-plan.ts';
import { InvalidRequestError } from '../../errors.ts';
import { rerankSchema, scoreSchema } from '../protocol/pooling.ts';
import { numTokensOf, type PoolingEndpoint, poolingOptions } from './pooling-route.ts';

export const score: PoolingEndpoint<typeof scoreSchema> = {
  paths: ['/score', '/v1/score'],
  summary: 'How well pairs of texts fit',
  schema: scoreSchema,
  async parse(engine, body, { id, created, model }, client) {
    const { text_1: first, text_2: second } = body;
    if (first.length !== 1 && first.length !== second.length) {
      throw new InvalidRequestError(
        `text_1 must be one text, or as many as text_2, got ${first.length} and ${second.length}`,
        { param: 'text_1' },
      );
    }
    const params = ['text_1', 'text_2'] as const;
    const texts = { first, second, params, kinds: ['text', 'text'] } as const;
    const { prompts, scoresOf } = await planScores(engine, texts, poolingOptions(body, client));
    const answer = (pooled: readonly Float32Array[]): object => ({
      id: `score-${id}`,
      object: 'list',
      created,
      model,
      data: scoresOf(pooled).map((value, index) => ({ index, object: 'score', score: value })),
      usage: { prompt_tokens: numTokensOf(prompts), total_tokens: numTokensOf(prompts) },
    });
    return { prompts, answer };
  },
};

export const rerank: PoolingEndpoint<typeof rerankSchema> = {
  paths: ['/rerank', '/v1/rerank', '/v2/rerank'],
  summary: 'Documents in the order of how well they fit a query',
  schema: rerankSchema,
  async parse(engine, body, { id, model }, client) {
    const { query, documents, top_n, return_documents } = body;
    const params = ['query', 'documents'] as const;
    const texts = { first: [query], second: documents, params, kinds: ['query', 'document'] } as const;
    const { prompts, scoresOf } = await planScores(engine, texts, poolingOptions(body, client));
    const answer = (pooled: readonly Float32Array[]): object => {
      const scores = scoresOf(pooled);
      // The best first; of equal scores the document that came first.
      const order = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]!);
      return {
        id: `rerank-${id}`,
        model,
        results: order.slice(0, top_n || documents.length).map((index) => ({
          index,
          ...((return_documents ?? true) && { document: { text: documents[index] } }),
          relevance_score: scores[index],
        })),
        usage: { prompt_tokens: numTokensOf(prompts), total_tokens: numTokensOf(prompts) },
      };
    };
    return { prompts, answer };
  },
};
