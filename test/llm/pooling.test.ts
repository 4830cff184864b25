// Embeddings and scores from a program.

import { afterAll, beforeAll, expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { embeddingCases, pairCases, poolingFolder } from '../engine/pooling-models.ts';

let embedder: LLM;
let reranker: LLM;
beforeAll(() => {
  embedder = new LLM({ model: poolingFolder('bert-mean') });
  reranker = new LLM({ model: poolingFolder('bert-reranker') });
});
afterAll(() => Promise.all([embedder, reranker].map((llm) => llm.close())));

it('embed() gives one vector a prompt, text or token ids, cut where that is asked for', async () => {
  const [first, second] = embeddingCases('bert-mean');
  const outputs = await embedder.embed([first!.text, second!.ids]);
  expect(outputs.map(({ prompt, prompt_token_ids }) => ({ prompt, prompt_token_ids }))).toEqual([
    { prompt: first!.text, prompt_token_ids: first!.ids },
    { prompt: null, prompt_token_ids: second!.ids },
  ]);
  for (const [index, { values }] of [first!, second!].entries()) {
    const { embedding } = outputs[index]!.outputs;
    for (const [i, value] of values.entries()) expect(embedding[i]).toBeCloseTo(value, 4);
  }
  const [cut] = await embedder.embed(first!.text, { dimensions: 8 });
  expect(cut!.outputs.embedding).toEqual(outputs[0]!.outputs.embedding.slice(0, 8));
});

it('outputs have the number of their request', async () => {
  const embedded = await embedder.embed(['a', 'b']);
  const scored = await embedder.score('a', ['b', 'c']);
  const numbers = [...embedded, ...scored].map(({ request_id }) => Number(request_id));
  expect(numbers).toEqual([0, 1, 2, 3].map((index) => numbers[0]! + index));
});

it('score() reads pairs with a reranker, and compares vectors of an embedding model', async () => {
  const [first, second] = pairCases('bert-reranker');
  const scores = await reranker.score(first!.pair[0], [first!.pair[1], second!.pair[1]]);
  expect(scores.map(({ outputs }) => outputs.score)).toEqual(
    [first!, second!].map(({ score }) => expect.closeTo(score, 4)),
  );
  const [same] = await embedder.score(['a cat'], ['a cat']);
  expect(same!.outputs.score).toBeCloseTo(1, 6);
});

it('calls that do not fit the model or its limits are refused, and say what would', async () => {
  await expect(embedder.generate('a')).rejects.toThrow(/gives embeddings and generates no text/);
  await expect(reranker.embed('a')).rejects.toThrow(/gives no embeddings: use \/v1\/rerank or \/score/);
  await expect(embedder.embed('a', { dimensions: 9 })).rejects.toThrow('dimensions must be 8, 16, 32, got 9');
  await expect(embedder.embed('a '.repeat(200))).rejects.toThrow(
    /^the prompt has .* and this model reads at most 100.*: shorten it, or set truncatePromptTokens to -1/,
  );
  await expect(embedder.embed(['a', 'a '.repeat(200)])).rejects.toThrow(/^prompts\[1\]: the prompt has /);
  await expect(embedder.score('a', 'b', { truncatePromptTokens: 101 })).rejects.toThrow(
    "truncatePromptTokens must be at most the model's context of 100 tokens, got 101",
  );
  await expect(embedder.score(['a', 'b'], ['c'])).rejects.toThrow(
    /takes two texts, one text and a list of texts, or/,
  );
  await expect(embedder.score('a', [])).rejects.toThrow(/takes two texts, one text and a list of texts, or/);
  await expect(embedder.embed('a', { dimensions: 0 })).rejects.toMatchObject({
    param: 'dimensions',
    message: expect.stringMatching(/^embed\(\): dimensions must be at least 1/),
  });
  await expect(embedder.score('a', 'b', { truncatePromptTokens: -2 })).rejects.toMatchObject({
    param: 'truncatePromptTokens',
    message: expect.stringMatching(/^score\(\): truncatePromptTokens must be at least -1/),
  });
  await expect(embedder.embed('a', JSON.parse('{"dimension": 8}'))).rejects.toMatchObject({
    param: 'dimension',
  });
  const signal = AbortSignal.abort(new Error('no more'));
  await expect(embedder.embed('a', { signal })).rejects.toThrow('no more');
});
