// POST /v1/embeddings: a vector for each of several inputs, texts or token ids.

import { endianness } from 'node:os';
import type { PreparedPooling } from '../../engine/inference-engine.ts';
import { promptNamed } from '../../engine/pooling/text-prompts.ts';
import { checkDimensions, toEmbedding } from '../../engine/pooling/vectors.ts';
import { lazyList } from '../../http/json-pieces.ts';
import { yieldTurn } from '../../util/yield-turn.ts';
import { embeddingSchema } from '../protocol/pooling.ts';
import { numTokensOf, type PoolingEndpoint, poolingOptions } from './pooling-route.ts';

export const embeddings: PoolingEndpoint<typeof embeddingSchema> = {
  paths: ['/v1/embeddings'],
  summary: 'A vector for each input',
  schema: embeddingSchema,
  async parse(engine, body, { model }, client) {
    const config = engine.expectEmbedding();
    const dimensions = body.dimensions ?? null;
    checkDimensions(dimensions, config);
    const addSpecialTokens = body.add_special_tokens ?? true;
    const before = promptNamed(config, body.prompt_name ?? null, 'prompt_name');
    const prompts: PreparedPooling[] = [];
    for (const input of body.input) {
      prompts.push(
        await engine.preparePooling(input, {
          ...poolingOptions(body, client),
          param: 'input',
          addSpecialTokens,
          before,
        }),
      );
      await yieldTurn();
    }
    const written = body.encoding_format === 'base64' ? toBase64 : toNumbers;
    const answer = (pooled: readonly Float32Array[]): object => ({
      object: 'list',
      data: lazyList(pooled, (values, index) => ({
        object: 'embedding',
        index,
        embedding: written(toEmbedding(values, config, dimensions)),
      })),
      model,
      usage: { prompt_tokens: numTokensOf(prompts), total_tokens: numTokensOf(prompts) },
    });
    return { prompts, answer };
  },
};

function toNumbers(vector: Float32Array): number[] {
  return Array.from(vector);
}

/** The numbers as little-endian float32, which is what clients expect. */
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === 'LE' ? bytes : Buffer.from(bytes).swap32()).toString('base64');
}
