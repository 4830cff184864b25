// Endpoints beside the answers: token ids, the document of the API, renderings, one path for all.

import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { createLogger } from '../../src/observability/log.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needs } from '../helpers/needs.ts';
import { bodyOf, errorOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ server: { showsTokenizer: true } });
});
afterAll(() => svc.close());

const MESSAGES = [{ role: 'user', content: 'Hello' }];
const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } };
const TEXT = 'Hello, wörld 🎉';

describe('/tokenize and /detokenize', () => {
  it('turn a text into the ids that a completion of it has, and back', async () => {
    const answer = await bodyOf(await svc.post('/tokenize', { prompt: TEXT, return_token_strs: true }));
    const completion = { prompt: TEXT, max_tokens: 1, return_token_ids: true };
    const { choices } = await bodyOf(await svc.post('/v1/completions', completion));
    expect(answer).toMatchObject({ count: answer.tokens.length, max_model_len: 512 });
    expect(answer.tokens).toEqual(choices[0].prompt_token_ids);
    expect(answer.token_strs).toHaveLength(answer.count);
    const plain = await bodyOf(await svc.post('/tokenize', { prompt: TEXT, add_special_tokens: false }));
    expect(plain.token_strs).toBeNull();
    expect(plain.count).toBeLessThan(answer.count);
    const { prompt } = await bodyOf(await svc.post('/detokenize', { model: MODEL, tokens: plain.tokens }));
    expect(prompt).toBe(TEXT);
    const whole = await bodyOf(await svc.post('/detokenize', { tokens: answer.tokens }));
    expect(whole.prompt).toBe(`<s>${TEXT}`);
  });

  it('have as many ids as the vocabulary', async () => {
    const { vocabSize } = svc.engine.tokenizer!;
    expect((await svc.post('/detokenize', { tokens: [vocabSize - 1] })).status).toBe(200);
    expect(await errorOf(await svc.post('/detokenize', { tokens: [0, vocabSize] }))).toMatchObject({
      message: `tokens must be ids from 0 to ${vocabSize - 1}, got ${vocabSize} at index 1`,
      param: 'tokens',
    });
  });

  it('turn a conversation into the ids that a chat of it has', async () => {
    const chat = { messages: MESSAGES, chat_template_kwargs: { a: 1 } };
    const { tokens } = await bodyOf(await svc.post('/tokenize', chat));
    const asked = { ...chat, max_tokens: 1, return_token_ids: true };
    expect((await bodyOf(await svc.post('/v1/chat/completions', asked))).prompt_token_ids).toEqual(tokens);
    const open = { messages: MESSAGES, continue_final_message: true };
    expect((await bodyOf(await svc.post('/tokenize', open))).count).toBeLessThan(tokens.length);
    const more = { ...chat, add_special_tokens: true, return_token_strs: true };
    const longer = await bodyOf(await svc.post('/tokenize', more));
    expect(longer.tokens.slice(1)).toEqual(tokens);
    expect(longer.token_strs).toHaveLength(longer.count);
  });

  it('know each field that they document', async () => {
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const own = await startTestServer({ server: { logger } });
    onTestFinished(() => own.close());
    for (const asked of [{ prompt: TEXT }, { messages: MESSAGES }]) {
      const fields = { add_special_tokens: false, return_token_strs: true };
      expect((await own.post('/tokenize', { ...asked, ...fields })).status).toBe(200);
    }
    expect(lines).toEqual([]);
  });

  it('take texts that are longer than the context, and no text at all', async () => {
    const { count } = await bodyOf(await svc.post('/tokenize', { prompt: 'word '.repeat(20_000) }));
    expect(count).toBeGreaterThan(512);
    const none = await bodyOf(await svc.post('/tokenize', { prompt: '', add_special_tokens: false }));
    expect(none.tokens).toEqual([]);
    expect(await bodyOf(await svc.post('/detokenize', { tokens: [] }))).toEqual({ prompt: '' });
  });

  it.each([
    ['/tokenize', {}, 'prompt', 400],
    ['/tokenize', { prompt: [5] }, 'prompt', 400],
    ['/tokenize', { prompt: 'a', model: 'other' }, 'model', 404],
    ['/tokenize', { messages: [] }, 'messages', 400],
    ['/tokenize', { messages: MESSAGES, model: 'other' }, 'model', 404],
    ['/tokenize', { messages: MESSAGES, chat_template: '{{ 1 }}' }, 'chat_template', 400],
    ['/detokenize', { tokens: [99_999] }, 'tokens', 400],
    ['/detokenize', { tokens: [-1] }, 'tokens', 400],
    ['/detokenize', { tokens: 'a' }, 'tokens', 400],
    ['/detokenize', { tokens: [5], model: 'other' }, 'model', 404],
  ])('%s refuses %j by naming %s', async (path, body, param, status) => {
    expect(await errorOf(await svc.post(path, body))).toMatchObject({ param, status });
  });

  it('are refused by a server without a tokenizer', async () => {
    const bare = await startTestServer({
      engine: { skipTokenizerInit: true },
      server: { showsTokenizer: true },
    });
    try {
      for (const [path, body] of [
        ['/tokenize', { prompt: 'a' }],
        ['/detokenize', { tokens: [5] }],
      ] as const) {
        const { status, message } = await errorOf(await bare.post(path, body));
        expect([status, message]).toEqual([400, expect.stringContaining('--skip-tokenizer-init')]);
      }
      const { message } = await errorOf(await fetch(`${bare.url}/tokenizer_info`));
      expect(message).toMatch(/^\/tokenizer_info needs a tokenizer/);
    } finally {
      await bare.close();
    }
  });
});

describe('GET /tokenizer_info', () => {
  it('tells class, special tokens and template, where the server is told to', async () => {
    const info = await bodyOf(await fetch(`${svc.url}/tokenizer_info`));
    expect(info).toMatchObject({
      tokenizer_class: expect.any(String),
      bos_token: expect.any(String),
      chat_template: svc.engine.chatTemplate?.source,
    });
  });
});

describe('/render', () => {
  it('tells the ids and the parameters of each prompt, without an answer', async () => {
    const { tokens } = await bodyOf(await svc.post('/tokenize', { messages: MESSAGES }));
    const chat = await bodyOf(await svc.post('/v1/chat/completions/render', { messages: MESSAGES, seed: 5 }));
    expect(chat).toEqual({
      request_id: expect.stringMatching(/^chatcmpl-/),
      model: MODEL,
      token_ids: tokens,
      sampling_params: expect.objectContaining({ seed: 5 }),
      stream: false,
      priority: 0,
    });
    const streamed = { messages: MESSAGES, stream: true };
    expect(await bodyOf(await svc.post('/v1/chat/completions/render', streamed))).toMatchObject({
      stream: true,
    });
    const list = await bodyOf(await svc.post('/v1/completions/render', { prompt: [[5, 6], [7]] }));
    expect(list.map(({ token_ids }: { token_ids: number[] }) => token_ids)).toEqual([[5, 6], [7]]);
    const { status } = await errorOf(await svc.post('/v1/completions/render', { prompt: 'a', top_p: 2 }));
    expect(status).toBe(400);
  });
});

describe('/invocations', () => {
  it('does what the fields ask for', async () => {
    const chat = await bodyOf(await svc.post('/invocations', { messages: MESSAGES, max_tokens: 1 }));
    expect(chat.object).toBe('chat.completion');
    const completion = await bodyOf(await svc.post('/invocations', { prompt: 'Hello', max_tokens: 1 }));
    expect(completion.object).toBe('text_completion');
    for (const body of [{ input: 'a' }, { text_1: 'a', text_2: 'b' }, { query: 'a', documents: ['b'] }]) {
      expect((await errorOf(await svc.post('/invocations', body))).message).toMatch(/generates text/);
    }
    const { status, message } = await errorOf(await svc.post('/invocations', { a: 1 }));
    expect([status, message]).toEqual([400, expect.stringMatching(/messages \(a chat\), prompt/)]);
  });
});

const SCHEMA_FORMAT = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'string' } } };
const TAG = { type: 'tag', begin: '<a>', content: { type: 'any_text' }, end: '</a>' };
const TAG_FORMAT = { type: 'structural_tag', format: { type: 'sequence', elements: [TAG, TAG] } };

const officialPath = sharedFixture('openai/openapi.json');
const needsOfficial = needs(officialPath !== null, 'there is no official document');

interface OfficialSchema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, object>>;
  readonly allOf?: readonly OfficialSchema[];
}

/** Names of the fields of a request in the official document. */
function officialFields(name: string): string[] {
  const { schemas } = JSON.parse(readFileSync(officialPath!, 'utf8')).components;
  const fieldsOf = ({ $ref, properties = {}, allOf = [] }: OfficialSchema): string[] =>
    $ref === undefined
      ? [...Object.keys(properties), ...allOf.flatMap(fieldsOf)]
      : fieldsOf(schemas[$ref.split('/').at(-1)!]);
  return fieldsOf(schemas[name]);
}

const Document = z.object({
  openapi: z.string(),
  paths: z.record(
    z.string(),
    z.record(
      z.string(),
      z.looseObject({
        requestBody: z
          .object({
            required: z.literal(true),
            content: z.object({ 'application/json': z.object({ schema: z.looseObject({}) }) }),
          })
          .optional(),
        responses: z.record(z.string(), z.looseObject({ content: z.looseObject({}).optional() })),
      }),
    ),
  ),
});

describe('GET /openapi.json', () => {
  const read = async (server = svc) =>
    Document.parse(await bodyOf(await fetch(`${server.url}/openapi.json`)));

  it('has every route, and each path and method in it is one', async () => {
    const { paths } = await read();
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining([
        '/v1/chat/completions',
        '/v1/completions',
        '/v1/responses',
        '/v1/responses/input_tokens',
        '/v1/responses/{id}',
        '/v1/messages',
        '/v1/messages/count_tokens',
        '/v1/embeddings',
        '/tokenize',
        '/ping',
      ]),
    );
    expect(Object.keys(paths['/ping'] ?? {})).toEqual(['get', 'post']);
    for (const [path, operations] of Object.entries(paths)) {
      for (const method of Object.keys(operations)) {
        const { id } = await bodyOf(await svc.post('/v1/responses', { input: 'a', max_output_tokens: 1 }));
        const url = `${svc.url}${path.replace('{name}', MODEL).replace('{id}', id)}`;
        const response = await fetch(url, { method });
        expect([method, path, response.status]).not.toEqual([method, path, 404]);
        expect([method, path, response.status]).not.toEqual([method, path, 405]);
        await response.arrayBuffer();
      }
    }
  });

  it('tells fields without effect from those that have some', async () => {
    const { schema } = (await read()).paths['/v1/chat/completions']!.post!.requestBody!.content[
      'application/json'
    ];
    const without = { description: 'Without effect' };
    expect(schema).toHaveProperty('properties.user', without);
    expect(schema).toHaveProperty('properties.metadata', expect.not.objectContaining(without));
  });

  it('lists the kinds of parts that messages have', async () => {
    const { schema } = (await read()).paths['/v1/chat/completions']!.post!.requestBody!.content[
      'application/json'
    ];
    const partWith = (field: string) =>
      expect.objectContaining({
        required: ['type', field],
        properties: expect.objectContaining({ type: { type: 'string', const: field } }),
      });
    expect(schema).toHaveProperty(
      'properties.messages.items.properties.content.anyOf[0].anyOf[1].items.oneOf',
      [partWith('text'), partWith('refusal'), partWith('image_url')],
    );
  });

  it.each([
    ['/v1/completions', ['text/event-stream']],
    ['/detokenize', ['application/json']],
    ['/v1/embeddings', undefined],
  ])('says in which forms %s answers', async (path, forms) => {
    const { content } = (await read()).paths[path]?.post?.responses[200] ?? {};
    expect(content && Object.keys(content)).toEqual(forms);
  });

  it.each([
    ['/v1/completions', { prompt: [[1, 2], [3]], logit_bias: { 5: 1 }, stop: ['a'] }, { prompt: 5 }],
    ['/v1/completions', { prompt: 'a', n: 128 }, { prompt: 'a', n: 129 }],
    ['/v1/completions', { prompt: 'a', best_of: 128 }, { prompt: 'a', best_of: 129 }],
    ['/v1/chat/completions', { messages: MESSAGES, n: 128 }, { messages: MESSAGES, n: 129 }],
    ['/v1/completions', { prompt: 'a', n: null, anything: [1] }, { prompt: 'a', top_p: 2 }],
    ['/v1/chat/completions', { messages: MESSAGES, stream_options: null }, { messages: [{ content: 'a' }] }],
    ['/v1/chat/completions', { messages: MESSAGES, stop_token_ids: [1] }, { messages: MESSAGES, n: 0 }],
    ['/v1/chat/completions', { messages: MESSAGES, tools: [TOOL] }, { messages: MESSAGES, tools: [{}] }],
    [
      '/v1/chat/completions',
      { messages: MESSAGES, functions: [TOOL.function], function_call: { name: 'f' } },
      { messages: MESSAGES, functions: [{}] },
    ],
    [
      '/v1/chat/completions',
      { messages: MESSAGES, response_format: SCHEMA_FORMAT, user: 'me' },
      { messages: MESSAGES, response_format: { type: 'json_schema' } },
    ],
    [
      '/v1/completions',
      { prompt: 'a', response_format: TAG_FORMAT },
      { prompt: 'a', response_format: { type: 'structural_tag', format: { type: 'tag' } } },
    ],
    [
      '/v1/completions',
      { prompt: 'a', structured_outputs: { choice: ['a', 'b'] } },
      { prompt: 'a', structured_outputs: { regexp: 'a' } },
    ],
    [
      '/v1/responses',
      { input: 'a', text: { format: { type: 'json_object' } } },
      { input: 'a', text: { format: { type: 'json_schema' } } },
    ],
    [
      '/v1/messages',
      { messages: MESSAGES, max_tokens: 1, output_config: { format: { type: 'json_schema', schema: {} } } },
      { messages: MESSAGES, max_tokens: 1, output_config: { format: { type: 'text' } } },
    ],
    ['/v1/messages', { messages: MESSAGES, max_tokens: 1 }, { messages: MESSAGES }],
    ['/v1/messages/count_tokens', { messages: MESSAGES }, { messages: [{ role: 'nobody', content: 'a' }] }],
    ['/v1/responses/input_tokens', { input: 'a' }, { input: 5 }],
    ['/v1/embeddings', { input: ['a', 'b'] }, { input: [] }],
    ['/tokenize', { messages: MESSAGES }, { prompt: 5 }],
    ['/detokenize', { tokens: [1, 2] }, { tokens: ['a'] }],
  ])('says of %s that %j may be sent and %j may not', async (path, right, wrong) => {
    const { paths } = await read();
    const schema = paths[path]?.post?.requestBody?.content['application/json'].schema;
    const validate = new Ajv2020({ strict: false }).compile(schema ?? false);
    expect([validate(right), validate.errors]).toEqual([true, null]);
    expect(validate(wrong)).toBe(false);
  });

  it.each([
    ['/v1/completions', 'CreateCompletionRequest', { prompt: 'a' }],
    ['/v1/chat/completions', 'CreateChatCompletionRequest', { messages: MESSAGES }],
    ['/v1/responses', 'CreateResponse', { input: 'a' }],
    ['/v1/embeddings', 'CreateEmbeddingRequest', { input: 'a' }],
  ])(
    'lists every field of the official %s, unless it is refused by name',
    needsOfficial,
    async (path, name, body) => {
      const { paths } = await read();
      const { properties } = paths[path]?.post?.requestBody?.content['application/json'].schema ?? {};
      const listed = Object.keys(properties ?? {});
      const missing = officialFields(name).filter((field) => !listed.includes(field));
      for (const field of missing) {
        const error = await errorOf(await svc.post(path, { ...body, [field]: 'x' }));
        expect([field, error.status, error.param]).toEqual([field, 400, field]);
      }
    },
  );

  it('is there without a key, as is the page that shows it, and neither with --disable-fastapi-docs', async () => {
    const guarded = await startTestServer({ server: { apiKeys: ['key'] } });
    const hidden = await startTestServer({ server: { hidesDocs: true } });
    try {
      expect((await read(guarded)).openapi).toBe('3.1.0');
      const page = await fetch(`${guarded.url}/docs`);
      const html = await page.text();
      expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(html).not.toMatch(/(src|href)="?(https?:)?\/\//);
      for (const path of ['/docs', '/openapi.json', '/tokenizer_info']) {
        const { status, type } = await errorOf(await fetch(`${hidden.url}${path}`));
        expect([status, type]).toEqual([404, 'Not Found']);
      }
    } finally {
      await Promise.all([guarded.close(), hidden.close()]);
    }
  });
});
