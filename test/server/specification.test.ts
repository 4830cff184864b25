// Whole answers and every chunk of streams against the schemas of the official specification.

import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { bodyOf, eventsOf, startTestServer, type TestServer } from './test-server.ts';

const SPECIFICATION = sharedFixture('openai/openapi.json');

type Json = z.output<ReturnType<typeof z.json>>;

const document = z.looseObject({
  components: z.looseObject({ schemas: z.record(z.string(), z.json()) }),
});

/** Parts are still written as in OpenAPI 3.0, where `nullable` stood for a type of its own. */
function withNulls(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withNulls);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { nullable, ...rest } = schema;
  const inner = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withNulls(value)]));
  return nullable === true ? { anyOf: [inner, { type: 'null' }] } : inner;
}

/** What a chunk of a completion must be is not written down: what it lacks of an answer is null in it. */
const CHUNK_NULLS = ['finish_reason', 'usage'];

function withChunkNulls(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withChunkNulls);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      const inner = withChunkNulls(value);
      return [key, CHUNK_NULLS.includes(key) ? { anyOf: [inner, { type: 'null' }] } : inner];
    }),
  );
}

function readSchemas(path: string): Record<string, Json> {
  const { components } = document.parse(JSON.parse(readFileSync(path, 'utf8')));
  const { schemas } = components;
  const chunk = withChunkNulls(schemas.CreateCompletionResponse ?? null);
  return Object.fromEntries(
    Object.entries({ ...schemas, CompletionChunk: chunk }).map(([name, schema]) => [name, withNulls(schema)]),
  );
}

/** A function that says what is wrong with a value, as a schema of the specification sees it. */
function faultsBy(ajv: Ajv2020, name: string): (value: unknown) => unknown[] {
  const validate: ValidateFunction = ajv.compile({ $ref: `spec#/components/schemas/${name}` });
  return (value) => (validate(value) ? [] : (validate.errors ?? []));
}

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

describe('the official specification', needsShared(SPECIFICATION), () => {
  let svc: TestServer;
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  beforeAll(async () => {
    ajv.addSchema({ $id: 'spec', components: { schemas: readSchemas(SPECIFICATION!) } });
    svc = await startTestServer();
  });
  afterAll(() => svc.close());

  it.each([
    ['chat/completions', 'CreateChatCompletionResponse', CHAT],
    ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, n: 2, temperature: 0 }],
    ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, logprobs: true, top_logprobs: 2 }],
    ['chat/completions', 'CreateChatCompletionResponse', { ...CHAT, use_beam_search: true, n: 2 }],
    ['completions', 'CreateCompletionResponse', COMPLETION],
    ['completions', 'CreateCompletionResponse', { ...COMPLETION, logprobs: 3 }],
    ['completions', 'CreateCompletionResponse', { ...COMPLETION, prompt: ['a', 'b'], n: 2, echo: true }],
  ])('has /v1/%s answered as %s by %j', async (path, schema, body) => {
    const response = await svc.post(`/v1/${path}`, body);
    expect(response.status).toBe(200);
    expect(faultsBy(ajv, schema)(await bodyOf(response))).toEqual([]);
  });

  it.each([
    ['chat/completions', 'CreateChatCompletionStreamResponse', CHAT],
    ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, n: 2, temperature: 0 }],
    ['chat/completions', 'CreateChatCompletionStreamResponse', { ...CHAT, logprobs: true, top_logprobs: 2 }],
    ['completions', 'CompletionChunk', COMPLETION],
    ['completions', 'CompletionChunk', { ...COMPLETION, logprobs: 3, n: 2 }],
  ])('has /v1/%s streamed in chunks that are each a %s by %j', async (path, schema, body) => {
    const faults = faultsBy(ajv, schema);
    const text = await (await svc.post(`/v1/${path}`, { ...body, ...STREAM })).text();
    const chunks = eventsOf(text).slice(0, -1);
    expect(chunks.length).toBeGreaterThan(2);
    for (const chunk of chunks) expect([chunk, faults(JSON.parse(chunk))]).toEqual([chunk, []]);
  });

  it.each([RESPONSE, TOLD])('has responses made, kept and listed as it says by %j', async (body) => {
    const made = await bodyOf(await svc.post('/v1/responses', body));
    expect(faultsBy(ajv, 'Response')(made)).toEqual([]);
    const kept = await bodyOf(await fetch(`${svc.url}/v1/responses/${made.id}`));
    expect(faultsBy(ajv, 'Response')(kept)).toEqual([]);
    const items = await bodyOf(await fetch(`${svc.url}/v1/responses/${made.id}/input_items`));
    expect(faultsBy(ajv, 'ResponseItemList')(items)).toEqual([]);
  });

  it.each([RESPONSE, TOLD])(
    'has responses streamed in events that are each as it says by %j',
    async (body) => {
      const text = await (await svc.post('/v1/responses', { ...body, stream: true })).text();
      const events = [...text.matchAll(/^event: (.*)\ndata: (.*)$/gm)];
      expect(events.length).toBeGreaterThan(8);
      for (const [, type = '', data = ''] of events) {
        expect([data, faultsBy(ajv, EVENT_SCHEMAS[type] ?? '')(JSON.parse(data))]).toEqual([data, []]);
      }
    },
  );

  it('has the models listed', async () => {
    const models = await bodyOf(await fetch(`${svc.url}/v1/models`));
    expect(faultsBy(ajv, 'ListModelsResponse')(models)).toEqual([]);
    const model = await bodyOf(await fetch(`${svc.url}/v1/models/${models.data[0].id}`));
    expect(faultsBy(ajv, 'Model')(model)).toEqual([]);
  });
});
