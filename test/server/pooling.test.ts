// Embeddings and scores over HTTP: with the official client, and the shapes of rerank and score that other servers have.

import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddingCases, pairCases, poolingFolder } from '../engine/pooling-models.ts';
import { bodyOf, errorOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

const TOLERANCE = 1e-4;
const close = (value: number) => expect.closeTo(value, 4);

let bert: TestServer;
let cut: TestServer;
let qwen: TestServer;
let reranker: TestServer;
let generating: TestServer;
beforeAll(async () => {
  const start = (name: string) => startTestServer({ folder: poolingFolder(name) });
  [bert, cut, qwen, reranker, generating] = await Promise.all([
    start('bert-cls'),
    start('bert-mean'),
    start('qwen3-embedding'),
    start('xlm-roberta-reranker'),
    startTestServer(),
  ]);
});
afterAll(() => Promise.all([bert, cut, qwen, reranker, generating].map((one) => one?.close())));

describe('POST /v1/embeddings', () => {
  const cases = embeddingCases('bert-cls');
  const input = cases.map(({ text }) => text);
  const promptTokens = cases.reduce((sum, { ids }) => sum + ids.length, 0);

  it.each(['base64', 'float'] as const)(
    'embeds a batch of texts for the official client, as %s',
    async (format) => {
      // The client asks for base64, and decodes it, where nothing is said.
      const asked = format === 'float' ? { encoding_format: format } : {};
      const answer = await bert.client.embeddings.create({ model: MODEL, input, user: 'me', ...asked });
      expect(answer.object).toBe('list');
      expect(answer.model).toBe(MODEL);
      expect(answer.usage).toEqual({ prompt_tokens: promptTokens, total_tokens: promptTokens });
      expect(answer.data.map(({ index, object }) => ({ index, object }))).toEqual(
        cases.map((_, index) => ({ index, object: 'embedding' })),
      );
      for (const [index, { values }] of cases.entries()) {
        const { embedding } = answer.data[index]!;
        expect(embedding).toHaveLength(32);
        for (const [i, value] of values.entries())
          expect(Math.abs(embedding[i]! - value)).toBeLessThan(TOLERANCE);
      }
    },
  );

  it('gives the same numbers in base64, little-endian float32, as in JSON', async () => {
    const of = async (encoding_format: string) =>
      (await bodyOf(await bert.post('/v1/embeddings', { input: 'one text', encoding_format }))).data[0]
        .embedding;
    const bytes = Buffer.from(await of('base64'), 'base64');
    expect(Array.from({ length: 32 }, (_, i) => bytes.readFloatLE(4 * i))).toEqual(await of('float'));
  });

  it('takes token ids, one list or several, and gives what their text gives', async () => {
    const [first, second] = cases;
    const lists = await bert.client.embeddings.create({ model: MODEL, input: [first!.ids, second!.ids] });
    const one = await bert.client.embeddings.create({ model: MODEL, input: first!.ids });
    const texts = await bert.client.embeddings.create({ model: MODEL, input: [first!.text, second!.text] });
    expect(lists.data).toEqual(texts.data);
    expect(one.data).toEqual([texts.data[0]]);
  });

  it('leaves out the special tokens where it is told to', async () => {
    const usageOf = async (more: object) =>
      (await bodyOf(await bert.post('/v1/embeddings', { input, ...more }))).usage.prompt_tokens;
    // One before and one behind each text.
    expect(await usageOf({ add_special_tokens: false })).toBe((await usageOf({})) - 2 * input.length);
  });

  it('has no field that the protocol does not have', async () => {
    const body = await bodyOf(await bert.post('/v1/embeddings', { input: 'a', model: MODEL }));
    expect(Object.keys(body).sort()).toEqual(['data', 'model', 'object', 'usage']);
    expect(Object.keys(body.data[0]).sort()).toEqual(['embedding', 'index', 'object']);
  });

  it('cuts embeddings to dimensions that the model was trained for, then brings them to length 1', async () => {
    const [whole, short] = await Promise.all(
      [undefined, 10].map(async (dimensions) => {
        const body = { model: MODEL, input: 'a cat', encoding_format: 'float' as const };
        return (await qwen.client.embeddings.create({ ...body, ...(dimensions && { dimensions }) })).data[0]!
          .embedding;
      }),
    );
    const length = Math.hypot(...whole!.slice(0, 10));
    expect(Math.hypot(...whole!)).toBeCloseTo(1, 5);
    expect(short).toEqual(whole!.slice(0, 10).map((value) => close(value / length)));
    const listed = await bodyOf(await cut.post('/v1/embeddings', { input: 'a cat', dimensions: 8 }));
    const all = await bodyOf(await cut.post('/v1/embeddings', { input: 'a cat' }));
    // This model's vectors keep their length.
    expect(listed.data[0].embedding).toEqual(all.data[0].embedding.slice(0, 8));
  });

  it.each([
    [
      { input: 'x '.repeat(200) },
      'input',
      /^input has (at least )?\d+ tokens, and this model reads at most 128: /,
    ],
    [{ input: new Array(129).fill(7) }, 'input', /^input has 129 tokens, and this model reads at most 128: /],
    [{ input: '' }, 'input', /must not be empty/],
    [{ input: [] }, 'input', /must not be empty/],
    [{ input: ['a', ''] }, 'input', /must not be empty/],
    [{ input: [[7], []] }, 'input', /must not be empty/],
    [{ input: new Array(2049).fill('a') }, 'input', /must have at most 2048/],
    [{ input: [5000] }, 'input', /token ids must be integers from 0 to \d+, got 5000 at index 0/],
    [{ input: 'a', dimensions: 16 }, 'dimensions', /must be 32 or left out: this model was not trained/],
    [{ input: 'a', dimensions: 0 }, 'dimensions', /must be at least 1/],
    [{ input: 'a', encoding_format: 'hex' }, 'encoding_format', /"?base64"?/],
    [
      { input: 'a', truncate_prompt_tokens: 500 },
      'truncate_prompt_tokens',
      /at most the model's context of 128/,
    ],
    [
      { input: 'a', truncate_prompt_tokens: 2 },
      'truncate_prompt_tokens',
      /must leave room for the special tokens/,
    ],
    [{ input: 'a', priority: 3 }, 'priority', /must be 0 on this server/],
    [{}, 'input', /input/],
  ])('refuses what is wrong, case %#', async (body, param, message) => {
    const error = await errorOf(await bert.post('/v1/embeddings', body));
    expect(error).toMatchObject({ status: 400, param });
    expect(error.message).toMatch(message);
  });

  it('refuses dimensions that are not those of the model, and says which are', async () => {
    expect(await errorOf(await cut.post('/v1/embeddings', { input: 'a', dimensions: 9 }))).toMatchObject({
      status: 400,
      message: 'dimensions must be 8, 16, 32, got 9',
    });
    expect((await errorOf(await qwen.post('/v1/embeddings', { input: 'a', dimensions: 33 }))).message).toBe(
      'dimensions must be from 1 to 32, got 33',
    );
  });

  it('cuts the end of a text to truncate_prompt_tokens, and keeps its special tokens', async () => {
    const { ids } = cases[1]!;
    const kept = [...ids.slice(0, 9), ids.at(-1)!];
    const long = { input: cases[1]!.text, truncate_prompt_tokens: 10 };
    const answer = await bodyOf(await bert.post('/v1/embeddings', long));
    expect(answer.usage.prompt_tokens).toBe(10);
    expect(answer.data).toEqual((await bodyOf(await bert.post('/v1/embeddings', { input: kept }))).data);
    const huge = { input: 'a cat '.repeat(20_000), truncate_prompt_tokens: -1 };
    expect((await bodyOf(await bert.post('/v1/embeddings', huge))).usage.prompt_tokens).toBe(128);
  });

  it('refuses another model by name', async () => {
    expect(await errorOf(await bert.post('/v1/embeddings', { input: 'a', model: 'other' }))).toMatchObject({
      status: 404,
      param: 'model',
    });
  });

  it('frees the work of a client that hangs up', async () => {
    // Slow, in small steps: there is work left when the client leaves.
    const engine = { device: 'reference', maxNumBatchedTokens: 128 } as const;
    const slow = await startTestServer({ folder: poolingFolder('bert-cls'), engine });
    const controller = new AbortController();
    const request = fetch(`${slow.url}/v1/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: new Array(1000).fill(new Array(120).fill(7)) }),
      signal: controller.signal,
    });
    request.catch(() => {});
    const waiting = { interval: 5, timeout: 60_000 };
    await expect.poll(async () => (await slow.engine.stats()).running, waiting).toBeGreaterThan(0);
    controller.abort();
    await expect(request).rejects.toThrow();
    await expect.poll(() => isIdle(slow.engine), waiting).toBe(true);
    await expect.poll(() => slow.server.numInFlight, waiting).toBe(0);
    await slow.close();
  });
});

describe('POST /score', () => {
  const cases = pairCases('xlm-roberta-reranker');

  it.each(['/score', '/v1/score'])('%s scores one text with each of several, or two lists', async (path) => {
    const [first, second, third, fourth] = cases;
    const oneToMany = { model: MODEL, text_1: first!.pair[0], text_2: [first!.pair[1], second!.pair[1]] };
    expect(await bodyOf(await reranker.post(path, oneToMany))).toEqual({
      id: expect.stringMatching(/^score-./),
      object: 'list',
      created: expect.closeTo(Date.now() / 1000, -2),
      model: MODEL,
      data: [
        { index: 0, object: 'score', score: close(first!.score) },
        { index: 1, object: 'score', score: close(second!.score) },
      ],
      usage: {
        prompt_tokens: first!.ids.length + second!.ids.length,
        total_tokens: first!.ids.length + second!.ids.length,
      },
    });
    const lists = { text_1: [third!.pair[0], fourth!.pair[0]], text_2: [third!.pair[1], fourth!.pair[1]] };
    const { data } = await bodyOf(await reranker.post(path, lists));
    expect(data.map((one: { score: number }) => one.score)).toEqual([
      close(third!.score),
      close(fourth!.score),
    ]);
  });

  it('of an embedding model is the cosine of the two vectors', async () => {
    const [a, b] = embeddingCases('bert-cls').map(({ values }) => values);
    const cosine = a!.reduce((sum, value, i) => sum + value * b![i]!, 0);
    const texts = embeddingCases('bert-cls').map(({ text }) => text);
    const { data } = await bodyOf(
      await bert.post('/score', { text_1: texts[0], text_2: [texts[1], texts[0]] }),
    );
    expect(data.map((one: { score: number }) => one.score)).toEqual([close(cosine), close(1)]);
  });

  it.each([
    [{ text_1: ['a', 'b'], text_2: ['a'] }, 'text_1', /must be one text, or as many as text_2, got 2 and 1/],
    [{ text_1: 'a', text_2: [] }, 'text_2', /must not be empty|must be a text/],
    [{ text_1: 'a' }, 'text_2', /text_2/],
    [
      { text_1: 'a', text_2: 'b '.repeat(300) },
      'text_2',
      /^text_2 has (at least )?\d+ tokens, and this model reads at most/,
    ],
  ])('refuses what is wrong, case %#', async (body, param, message) => {
    const error = await errorOf(await reranker.post('/score', body));
    expect(error).toMatchObject({ status: 400, param });
    expect(error.message).toMatch(message);
  });
});

describe('POST /rerank', () => {
  const query = 'what is a cat?';
  const documents = ['no', 'a cat is an animal that sleeps all day', 'text of the sun', 'a cat'];

  it.each(['/rerank', '/v1/rerank', '/v2/rerank'])('%s orders documents by their scores', async (path) => {
    const scored = await bodyOf(await reranker.post('/score', { text_1: query, text_2: documents }));
    const scores: number[] = scored.data.map((one: { score: number }) => one.score);
    const order = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]!);
    expect(await bodyOf(await reranker.post(path, { model: MODEL, query, documents }))).toEqual({
      id: expect.stringMatching(/^rerank-./),
      model: MODEL,
      results: order.map((index) => ({
        index,
        document: { text: documents[index] },
        relevance_score: scores[index],
      })),
      usage: scored.usage,
    });
  });

  it('gives as many as are asked for, and no texts where they are not wanted', async () => {
    const asked = {
      query,
      documents: documents.map((text) => ({ text })),
      top_n: 2,
      return_documents: false,
    };
    const { results } = await bodyOf(await reranker.post('/rerank', asked));
    expect(results).toHaveLength(2);
    const all = await bodyOf(await reranker.post('/rerank', { ...asked, top_n: 0 }));
    expect(all.results).toHaveLength(documents.length);
    expect(Object.keys(results[0]).sort()).toEqual(['index', 'relevance_score']);
  });

  it('cuts the longer of the two texts where it is told to', async () => {
    const long = { query, documents: ['a cat '.repeat(500)] };
    expect(await errorOf(await reranker.post('/rerank', long))).toMatchObject({
      status: 400,
      param: 'documents',
    });
    const body = await bodyOf(await reranker.post('/rerank', { ...long, truncate_prompt_tokens: -1 }));
    expect(body.usage.prompt_tokens).toBe(reranker.engine.info.maxModelLen);
  });

  it.each([
    [{ documents }, 'query'],
    [{ query, documents: [] }, 'documents'],
    [{ query, documents: [3] }, 'documents'],
    [{ query, documents, top_n: -1 }, 'top_n'],
  ])('refuses %j', async (body, param) => {
    expect(await errorOf(await reranker.post('/rerank', body))).toMatchObject({ status: 400, param });
  });
});

describe('a model that is asked for what it does not do', () => {
  it.each(['/v1/embeddings', '/score', '/rerank'])('says that it generates text: %s', async (path) => {
    const error = await errorOf(await generating.post(path, { input: 'a' }));
    expect(error).toMatchObject({ status: 400, type: 'BadRequestError', param: 'model' });
    expect(error.message).toMatch(
      /generates text: embeddings and scores are served where it is started with --runner pooling/,
    );
  });

  it.each([
    ['/v1/completions', { prompt: 'a' }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'a' }] }],
    ['/v1/completions/render', { prompt: 'a' }],
    ['/v1/responses/input_tokens', { input: 'a' }],
  ])('says that it gives embeddings: %s', async (path, body) => {
    const error = await errorOf(await bert.post(path, body));
    expect(error).toMatchObject({ status: 400, type: 'BadRequestError', param: 'model' });
    expect(error.message).toMatch(/gives embeddings and generates no text: use \/v1\/embeddings/);
  });

  it('says that it scores: /v1/embeddings', async () => {
    const error = await errorOf(await reranker.post('/v1/embeddings', { input: 'a' }));
    expect(error).toMatchObject({ status: 400, param: 'model' });
    expect(error.message).toMatch(/gives no embeddings: use \/v1\/rerank or \/score/);
  });
});

it('a request for embeddings is in the log, with the fields that nobody knows', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const server = { logger, logRequests: true };
  const own = await startTestServer({ folder: poolingFolder('bert-cls'), server });
  expect((await own.post('/v1/embeddings', { input: [[7], [7, 8]], user: 'me', colour: 'red' })).status).toBe(
    200,
  );
  await own.close();
  const logged = lines.map((line) => JSON.parse(line));
  expect(logged.find(({ fields }) => fields)?.fields).toEqual(['colour']);
  const [received] = logged.filter(({ msg }) => msg === 'received request');
  expect(received?.promptTokens).toEqual([1, 2]);
  expect(received).not.toHaveProperty('params');
});

describe('the other routes of a pooling model', () => {
  it('list it and count its requests', async () => {
    expect((await bert.client.models.list()).data[0]).toMatchObject({ id: MODEL, max_model_len: 128 });
    const before = await (await fetch(`${bert.url}/metrics`)).text();
    await bert.post('/v1/embeddings', { input: ['a', 'b'] });
    const after = await (await fetch(`${bert.url}/metrics`)).text();
    const count = (text: string) =>
      Number(/request_success_total\{[^}]*finished_reason="stop"[^}]*\} (\d+)/.exec(text)?.[1]);
    expect(count(after) - count(before)).toBe(2);
  });
});
