// Client libraries that people use with the protocol, each with a real server: every method for the routes that svc has.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage, SystemMessage } from '@langchain/core/messages';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { ChatOpenAI, OpenAI as LangChainCompletion, OpenAIEmbeddings } from '@langchain/openai';
import { embed, embedMany, generateText, streamText } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { poolingFolder } from '../engine/pooling-models.ts';
import { ConformanceTable } from '../helpers/conformance-table.ts';
import { until } from '../helpers/until.ts';
import { isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

const table = new ConformanceTable('Client libraries');
let svc: TestServer;
let embedding: TestServer;
let guarded: TestServer;
beforeAll(async () => {
  [svc, embedding, guarded] = await Promise.all([
    startTestServer(),
    startTestServer({ folder: poolingFolder('bert-cls') }),
    startTestServer({ server: { apiKeys: ['right'] } }),
  ]);
});
afterAll(async () => {
  await Promise.all([svc, embedding, guarded].map((one) => one?.close()));
  table.print();
});

/** A test, and a row of the table. */
function checks(client: string, what: string, run: () => Promise<void>): void {
  it(`${client}: ${what}`, async () => {
    await run();
    table.add(client, what, 'ok');
  });
}

const MESSAGES = [{ role: 'user' as const, content: 'Hello' }];
const SHORT = { model: MODEL, max_tokens: 4, temperature: 0, seed: 1 };
const CHAT = { ...SHORT, messages: MESSAGES, ignore_eos: true };
const COMPLETION = { ...SHORT, prompt: 'Hello', ignore_eos: true };

async function chatText(): Promise<string> {
  const { choices } = await svc.client.chat.completions.create(CHAT);
  return choices[0]?.message.content ?? '';
}

describe('the official client', () => {
  const client = 'openai';

  checks(client, 'models.list, models.retrieve', async () => {
    const names: string[] = [];
    for await (const { id } of svc.client.models.list()) names.push(id);
    expect(names).toEqual([MODEL, 'org/alias']);
    expect((await svc.client.models.retrieve('org/alias')).id).toBe('org/alias');
    await expect(svc.client.models.retrieve('nobody')).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  checks(client, 'completions.create', async () => {
    const { choices, usage } = await svc.client.completions.create(COMPLETION);
    expect([choices.length, usage?.completion_tokens]).toEqual([1, 4]);
  });

  checks(client, 'completions.create as a stream', async () => {
    const whole = await svc.client.completions.create(COMPLETION);
    let text = '';
    const stream = await svc.client.completions.create({ ...COMPLETION, stream: true });
    for await (const { choices } of stream) text += choices[0]?.text;
    expect(text).toBe(whole.choices[0]?.text);
  });

  checks(client, 'chat.completions.create, asResponse, withResponse', async () => {
    const text = await chatText();
    const response = await svc.client.chat.completions.create(CHAT).asResponse();
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: text } }] });
    const { data, request_id } = await svc.client.chat.completions.create(CHAT).withResponse();
    expect(data.id).toBe(`chatcmpl-${request_id}`);
  });

  checks(client, 'chat.completions.create as a stream, tee, toReadableStream', async () => {
    const text = await chatText();
    const stream = await svc.client.chat.completions.create({ ...CHAT, stream: true });
    const [one, other] = stream.tee();
    let read = '';
    for await (const { choices } of one) read += choices[0]?.delta.content ?? '';
    expect(read).toBe(text);
    const lines = await new Response(other.toReadableStream()).text();
    expect(lines.trim().split('\n').length).toBeGreaterThan(3);
  });

  checks(client, 'chat.completions.stream with all of its events', async () => {
    const text = await chatText();
    const stream = svc.client.chat.completions.stream({
      ...CHAT,
      logprobs: true,
      stream_options: { include_usage: true },
    });
    let content = '';
    const seen = new Set<string>();
    stream.on('content', (delta) => {
      content += delta;
    });
    for (const name of ['chunk', 'content.delta', 'content.done', 'logprobs.content.delta', 'end'] as const)
      stream.on(name, () => seen.add(name));
    expect(await stream.finalContent()).toBe(text);
    expect(content).toBe(text);
    expect((await stream.finalMessage()).role).toBe('assistant');
    expect((await stream.totalUsage()).completion_tokens).toBe(4);
    expect((await stream.finalChatCompletion()).choices[0]?.finish_reason).toBe('length');
    expect([...seen].sort()).toEqual([
      'chunk',
      'content.delta',
      'content.done',
      'end',
      'logprobs.content.delta',
    ]);
  });

  checks(client, 'chat.completions.stream that is aborted', async () => {
    const stream = svc.client.chat.completions.stream({ ...CHAT, max_tokens: 400 });
    stream.once('chunk', () => stream.abort());
    await expect(stream.done()).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await until(() => isIdle(svc.engine));
  });

  checks(client, 'embeddings.create', async () => {
    const { data } = await embedding.client.embeddings.create({ model: MODEL, input: ['a', 'b'] });
    expect(data.map((one) => one.embedding.length)).toEqual([32, 32]);
  });

  checks(client, 'an error class for each status', async () => {
    const wrong = svc.client.completions.create({ ...COMPLETION, top_p: 2 });
    await expect(wrong).rejects.toMatchObject({ status: 400, param: 'top_p', code: 400 });
    await expect(wrong).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    const other = svc.client.completions.create({ ...COMPLETION, model: 'nobody' });
    await expect(other).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    const keyless = new OpenAI({ baseURL: `${guarded.url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    await expect(keyless.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });

  checks(client, 'routes that are not here are refused in the shape of errors', async () => {
    const { chat, files, images, moderations, models } = svc.client;
    const asked: readonly (() => PromiseLike<unknown>)[] = [
      () => chat.completions.list(),
      () => chat.completions.retrieve('a'),
      () => files.list(),
      () => images.generate({ prompt: 'a' }),
      () => moderations.create({ input: 'a' }),
    ];
    for (const ask of asked) {
      await expect(ask()).rejects.toMatchObject({ message: expect.stringMatching(/^40[45] /) });
    }
    await expect(models.delete(MODEL)).rejects.toMatchObject({ status: 405 });
  });
});

describe('the ai SDK', () => {
  const client = '@ai-sdk/openai-compatible';
  const provider = (url: string) =>
    createOpenAICompatible({ name: 'svc', baseURL: `${url}/v1`, includeUsage: true });
  const asked = { prompt: 'Hello', maxOutputTokens: 4, temperature: 0, seed: 1, maxRetries: 0 };

  checks(client, 'generateText with a chat model', async () => {
    const { text, usage, finishReason } = await generateText({ model: provider(svc.url)(MODEL), ...asked });
    expect(text).toBe(await plainChatText());
    expect([usage.outputTokens, finishReason]).toEqual([4, 'length']);
  });

  checks(client, 'generateText with a completion model', async () => {
    const { text } = await generateText({ model: provider(svc.url).completionModel(MODEL), ...asked });
    expect(text.length).toBeGreaterThan(0);
  });

  checks(client, 'streamText', async () => {
    const { textStream, totalUsage, finishReason } = streamText({
      model: provider(svc.url)(MODEL),
      ...asked,
    });
    let text = '';
    for await (const piece of textStream) text += piece;
    expect(text).toBe(await plainChatText());
    expect([(await totalUsage).outputTokens, await finishReason]).toEqual([4, 'length']);
  });

  checks(client, 'embed, embedMany', async () => {
    const model = provider(embedding.url).embeddingModel(MODEL);
    expect((await embed({ model, value: 'a', maxRetries: 0 })).embedding).toHaveLength(32);
    expect((await embedMany({ model, values: ['a', 'b'], maxRetries: 0 })).embeddings).toHaveLength(2);
  });

  checks(client, 'errors with their message', async () => {
    const failed = generateText({ model: provider(svc.url)('nobody'), ...asked });
    await expect(failed).rejects.toMatchObject({
      statusCode: 404,
      message: expect.stringContaining('nobody'),
    });
  });
});

/** A chat that ends where it ends, as libraries that know no `ignore_eos` get it. */
async function plainChatText(): Promise<string> {
  const { choices } = await svc.client.chat.completions.create({ ...SHORT, messages: MESSAGES });
  return choices[0]?.message.content ?? '';
}

describe('LangChain', () => {
  const client = '@langchain/openai';
  const options = (url: string) => ({
    model: MODEL,
    apiKey: 'none',
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` },
  });
  const short = { maxTokens: 4, temperature: 0 };

  checks(client, 'ChatOpenAI.invoke', async () => {
    const chat = new ChatOpenAI({ ...options(svc.url), ...short });
    const answer = await chat.invoke([new SystemMessage('Be brief.'), new HumanMessage('Hello')]);
    expect(answer.response_metadata.tokenUsage).toMatchObject({ completionTokens: 4 });
    expect(answer.text.length).toBeGreaterThan(0);
  });

  checks(client, 'ChatOpenAI.stream', async () => {
    const chat = new ChatOpenAI({ ...options(svc.url), ...short });
    let text = '';
    for await (const chunk of await chat.stream('Hello')) text += chunk.text;
    expect(text).toBe((await chat.invoke('Hello')).text);
  });

  checks(client, 'ChatOpenAI.batch, and a chain with a prompt', async () => {
    const chat = new ChatOpenAI({ ...options(svc.url), ...short });
    const [one, two] = await chat.batch(['Hello', 'Hello']);
    expect(one?.text).toBe(two?.text);
    const chain = ChatPromptTemplate.fromMessages([['human', '{word}']]).pipe(chat);
    expect((await chain.invoke({ word: 'Hello' })).text).toBe(one?.text);
  });

  checks(client, 'OpenAI.invoke, OpenAI.stream', async () => {
    const completion = new LangChainCompletion({ ...options(svc.url), ...short });
    let text = '';
    for await (const piece of await completion.stream('Hello')) text += piece;
    expect(text).toBe(await completion.invoke('Hello'));
  });

  checks(client, 'OpenAIEmbeddings.embedQuery, embedDocuments', async () => {
    const embeddings = new OpenAIEmbeddings({ ...options(embedding.url) });
    expect(await embeddings.embedQuery('a')).toHaveLength(32);
    expect(await embeddings.embedDocuments(['a', 'b'])).toHaveLength(2);
  });
});
