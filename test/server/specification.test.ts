// Whole answers, every chunk of streams and errors against the schemas of the official specification, and against the shapes of
// recorded answers.

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { poolingFolder } from '../engine/pooling-models.ts';
import { ConformanceTable } from '../helpers/conformance-table.ts';
import { faultsBy } from '../helpers/openai-schemas.ts';
import { bodyOf, eventsOf, startTestServer, type TestServer } from './test-server.ts';

const CHAT = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 6, ignore_eos: true };
const COMPLETION = { prompt: 'Hello', max_tokens: 6, ignore_eos: true };
const RESPONSE = { input: 'Hello', max_output_tokens: 6, ignore_eos: true };
const TOLD = {
  ...RESPONSE,
  input: [
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Hi' },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Who is it?' }] },
  ],
  instructions: 'Be brief.',
  metadata: { about: 'a test' },
  reasoning: { effort: 'low' },
  include: ['message.output_text.logprobs'],
  top_logprobs: 2,
  user: 'a person',
};
const STREAM = { stream: true, stream_options: { include_usage: true } };
const EVENT_SCHEMAS: Readonly<Record<string, string>> = {
  'response.created': 'ResponseCreatedEvent',
  'response.in_progress': 'ResponseInProgressEvent',
  'response.output_item.added': 'ResponseOutputItemAddedEvent',
  'response.content_part.added': 'ResponseContentPartAddedEvent',
  'response.output_text.delta': 'ResponseTextDeltaEvent',
  'response.output_text.done': 'ResponseTextDoneEvent',
  'response.content_part.done': 'ResponseContentPartDoneEvent',
  'response.output_item.done': 'ResponseOutputItemDoneEvent',
  'response.incomplete': 'ResponseIncompleteEvent',
};
const PARTS = [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }];

const table = new ConformanceTable('Answers against the official specification');
let svc: TestServer;
let embedding: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
  embedding = await startTestServer({ folder: poolingFolder('bert-cls') });
});
afterAll(async () => {
  await Promise.all([svc, embedding].map((one) => one?.close()));
  table.print();
});

it.each([
  ['chat/completions', 'CreateChatCompletionResponse', CHAT],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, n: 2, temperature: 0 }],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, logprobs: true, top_logprobs: 2 }],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, logprobs: true, logprob_token_ids: [5] }],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, use_beam_search: true, n: 2 }],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, messages: PARTS, prompt_logprobs: 1 }],
  [
    'chat/completions',
    'CreateChatCompletionResponse',
    { ...CHAT, service_tier: 'auto', metadata: { a: 'b' } },
  ],
  ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, echo: true, return_token_ids: true }],
  ['completions', 'CreateCompletionResponse', COMPLETION],
  ['completions', 'CreateCompletionResponse', { ...COMPLETION, logprobs: 3 }],
  ['completions', 'CreateCompletionResponse', { ...COMPLETION, prompt: ['a', 'b'], n: 2, echo: true }],
  ['completions', 'CreateCompletionResponse', { ...COMPLETION, best_of: 3, logprobs: 1 }],
  ['completions', 'CreateCompletionResponse', { ...COMPLETION, prompt_logprobs: 1, return_token_ids: true }],
  ['embeddings', 'CreateEmbeddingResponse', { input: ['a', 'b'] }],
])('has /v1/%s answered as %s by %j', async (path, schema, body) => {
  const server = path === 'embeddings' ? embedding : svc;
  const response = await server.post(`/v1/${path}`, body);
  expect(response.status).toBe(200);
  expect(faultsBy(schema)(await bodyOf(response))).toEqual([]);
  table.add(`/v1/${path}`, added(body), schema);
});

it.each([
  ['chat/completions', 'CreateChatCompletionStreamResponse', CHAT],
  ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, n: 2, temperature: 0 }],
  ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, logprobs: true, top_logprobs: 2 }],
  ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, echo: true, service_tier: 'auto' }],
  ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, stream_interval: 2 }],
  ['completions', 'CompletionChunk', COMPLETION],
  ['completions', 'CompletionChunk', { ...COMPLETION, logprobs: 3, n: 2 }],
  ['completions', 'CompletionChunk', { ...COMPLETION, echo: true, return_token_ids: true }],
])('has /v1/%s streamed in chunks that are each a %s by %j', async (path, schema, body) => {
  const faults = faultsBy(schema);
  const text = await (await svc.post(`/v1/${path}`, { ...body, ...STREAM })).text();
  const chunks = eventsOf(text).slice(0, -1);
  expect(chunks.length).toBeGreaterThan(2);
  for (const chunk of chunks) expect([chunk, faults(JSON.parse(chunk))]).toEqual([chunk, []]);
  table.add(`/v1/${path}`, `stream ${added(body)}`.trim(), `${schema}, ${chunks.length} chunks`);
});

it('has the models listed', async () => {
  const models = await bodyOf(await fetch(`${svc.url}/v1/models`));
  expect(faultsBy('ListModelsResponse')(models)).toEqual([]);
  table.add('/v1/models', '', 'ListModelsResponse');
  const model = await bodyOf(await fetch(`${svc.url}/v1/models/${models.data[0].id}`));
  expect(faultsBy('Model')(model)).toEqual([]);
  table.add('/v1/models/{name}', '', 'Model');
});

it.each([
  ['POST', '/v1/completions', 400],
  ['POST', '/v1/chat/completions', 400],
  ['GET', '/v1/models/nobody', 404],
  ['GET', '/v1/nowhere', 404],
  ['GET', '/v1/completions', 405],
])('has the error of %s %s in the shape of errors, with status %i', async (method, path, status) => {
  const body = method === 'POST' ? { body: '{}', headers: { 'content-type': 'application/json' } } : {};
  const response = await fetch(`${svc.url}${path}`, { method, ...body });
  expect(response.status).toBe(status);
  expect(faultsBy('ErrorResponse')(await bodyOf(response))).toEqual([]);
  table.add(path, `${method}, wrong`, `ErrorResponse, ${status}`);
});

it.each([RESPONSE, TOLD])('has responses made, kept and listed as it says by %j', async (body) => {
  const made = await bodyOf(await svc.post('/v1/responses', body));
  expect(faultsBy('Response')(made)).toEqual([]);
  const kept = await bodyOf(await fetch(`${svc.url}/v1/responses/${made.id}`));
  expect(faultsBy('Response')(kept)).toEqual([]);
  const items = await bodyOf(await fetch(`${svc.url}/v1/responses/${made.id}/input_items`));
  expect(faultsBy('ResponseItemList')(items)).toEqual([]);
  table.add('/v1/responses', added(body), 'Response, ResponseItemList');
});

it.each([RESPONSE, TOLD])('has responses streamed in events that are each as it says by %j', async (body) => {
  const text = await (await svc.post('/v1/responses', { ...body, stream: true })).text();
  const events = [...text.matchAll(/^event: (.*)\ndata: (.*)$/gm)];
  expect(events.length).toBeGreaterThan(8);
  for (const [, type = '', data = ''] of events) {
    expect([data, faultsBy(EVENT_SCHEMAS[type] ?? '')(JSON.parse(data))]).toEqual([data, []]);
  }
  table.add('/v1/responses', `stream ${added(body)}`.trim(), `${events.length} events, each as its type`);
});

it.each([
  ['openai-text.json', 'chat/completions', CHAT],
  ['openai-text.chunks.txt', 'chat/completions', { ...CHAT, ...STREAM, service_tier: 'auto' }],
  ['openai-completion-text.json', 'completions', COMPLETION],
  ['openai-completion-text.chunks.txt', 'completions', { ...COMPLETION, ...STREAM }],
  ['openai-embedding.json', 'embeddings', { input: 'a' }],
])('has every field of the recorded answer %s in that of /v1/%s', async (file, path, body) => {
  const recorded = readFileSync(new URL(`../fixtures/openai/recorded/${file}`, import.meta.url), 'utf8');
  const text = await (await (path === 'embeddings' ? embedding : svc).post(`/v1/${path}`, body)).text();
  const isStream = file.endsWith('.txt');
  const theirs = isStream ? recorded.trim().split('\n') : [recorded];
  const ours = isStream ? eventsOf(text).slice(0, -1) : [text];
  // The first event, one in the middle, the end of the choice, and the usage.
  const pairs: readonly (readonly [number, number])[] = isStream
    ? [
        [0, 0],
        [1, 2],
        [-2, -2],
        [-1, -1],
      ]
    : [[0, 0]];
  for (const [their, our] of pairs) {
    expectFields(JSON.parse(ours.at(our)!), JSON.parse(theirs.at(their)!), file);
  }
  table.add(`/v1/${path}`, `recorded ${file}`, `${pairs.length} documents`);
});

/** What the recorded service says of its own hiding, of sound, and of refusals, which no answer here is. */
const NOT_OURS = new Set(['obfuscation', 'audio_tokens', 'refusal']);

function expectFields(ours: unknown, recorded: unknown, where: string): void {
  if (typeof recorded !== 'object' || recorded === null || Array.isArray(recorded) !== Array.isArray(ours))
    return;
  for (const [key, value] of Object.entries(recorded)) {
    if (NOT_OURS.has(key)) continue;
    if (Array.isArray(recorded) && key !== '0') return;
    expect(Object.keys(ours ?? {}), `${where}.${key}`).toContain(key);
    expectFields(Reflect.get(Object(ours), key), value, `${where}.${key}`);
  }
}

/** The fields that make the request another than the usual one. */
function added(body: object): string {
  return Object.keys(body)
    .filter((name) => !(name in CHAT) && !(name in COMPLETION) && !(name in RESPONSE))
    .join(', ');
}
