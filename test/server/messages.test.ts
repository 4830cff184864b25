// /v1/messages with the client library of its protocol, and without where it would be in the way.

import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TINY_EOS_ID } from '../fixtures/tiny-tokenizer.ts';
import { until } from '../helpers/until.ts';
import { bodyOf, isIdle, startTestServer, TEMPLATE_OF_CALLS, type TestServer } from './test-server.ts';

const KEY = 'a-key';
const MESSAGES: Anthropic.MessageParam[] = [{ role: 'user', content: 'tell me of the sea' }];
const REQUEST = { model: 'tiny', max_tokens: 12, temperature: 0, messages: MESSAGES };

let svc: TestServer;
let client: Anthropic;
beforeAll(async () => {
  svc = await startTestServer({
    server: { apiKeys: [KEY] },
    engine: { chatTemplate: TEMPLATE_OF_CALLS },
  });
  client = new Anthropic({ baseURL: svc.url, apiKey: KEY, maxRetries: 0 });
});
afterAll(() => svc.close());

function post(path: string, body: unknown): Promise<Response> {
  return svc.post(path, body, { 'x-api-key': KEY, 'anthropic-version': '2023-06-01' });
}

function textOf({ content }: Pick<Anthropic.Message, 'content'>): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

async function chat(fields: object): Promise<string> {
  const body = { model: 'tiny', max_tokens: 12, temperature: 0, ...fields };
  const { choices } = await bodyOf(await post('/v1/chat/completions', body));
  return choices[0].message.content;
}

describe('a message', () => {
  it('is what a chat completion says', async () => {
    const message = await client.messages.create({
      ...REQUEST,
      system: [{ type: 'text', text: 'be brief', cache_control: { type: 'ephemeral' } }],
    });
    const conversation = [{ role: 'system', content: 'be brief' }, ...MESSAGES];
    expect(textOf(message)).toBe(await chat({ messages: conversation }));
    expect(message).toMatchObject({ type: 'message', role: 'assistant', model: 'tiny' });
    expect([message.stop_reason, message.stop_sequence]).toEqual(['max_tokens', null]);
    expect(message.id).toMatch(/^msg_[0-9a-f]{32}$/);
  });

  it('is what structured_outputs says, of a prompt that chat_template_kwargs and thinking are a part of', async () => {
    const chatTemplate = 'a{{ enable_thinking }}{{ mood }}<|assistant|>';
    const own = await startTestServer({ engine: { chatTemplate } });
    try {
      const asked = {
        ...REQUEST,
        structured_outputs: { choice: ['calm', 'wild'] },
        chat_template_kwargs: { mood: 'sea', enable_thinking: true },
        thinking: { type: 'disabled' },
      };
      const { content, usage } = await bodyOf(await own.post('/v1/messages', asked));
      expect(['calm', 'wild']).toContain(content[0].text);
      const { length } = await own.engine.tokenizer!.encode('aFalsesea<|assistant|>', {
        addSpecialTokens: false,
      });
      expect(usage.input_tokens + usage.cache_read_input_tokens).toBe(length);
    } finally {
      await own.close();
    }
  });

  it('counts what came from the cache apart', async () => {
    const long = {
      ...REQUEST,
      messages: [{ role: 'user' as const, content: 'once upon a time '.repeat(8) }],
    };
    const first = (await client.messages.create(long)).usage;
    const again = (await client.messages.create(long)).usage;
    expect(again.cache_read_input_tokens).toBeGreaterThan(0);
    expect(again.input_tokens + (again.cache_read_input_tokens ?? 0)).toBe(
      first.input_tokens + (first.cache_read_input_tokens ?? 0),
    );
    expect(again.output_tokens).toBe(12);
  });

  it('names the text at which it stopped', async () => {
    const sampled = { ...REQUEST, temperature: 1, seed: 4 };
    const whole = textOf(await client.messages.create(sampled));
    const stop = whole.slice(2, 4);
    const message = await client.messages.create({ ...sampled, stop_sequences: ['never there', stop] });
    expect(textOf(message)).toBe(whole.slice(0, whole.indexOf(stop)));
    expect([message.stop_reason, message.stop_sequence]).toEqual(['stop_sequence', stop]);
  });

  it('has no block where the model ends it without a word', async () => {
    const message = await bodyOf(
      await post('/v1/messages', { ...REQUEST, allowed_token_ids: [TINY_EOS_ID] }),
    );
    expect(message).toMatchObject({ content: [], stop_reason: 'end_turn', stop_sequence: null });
  });

  it('goes on with a last message of the assistant', async () => {
    const conversation = [...MESSAGES, { role: 'assistant' as const, content: 'The sea is' }];
    const message = await client.messages.create({ ...REQUEST, messages: conversation });
    const continued = { add_generation_prompt: false, continue_final_message: true };
    expect(textOf(message)).toBe(await chat({ messages: conversation, ...continued }));
  });

  it('takes what only says how to think, to bill or to keep', async () => {
    const asked = {
      thinking: { type: 'enabled', budget_tokens: 1024 },
      metadata: { user_id: 'a person' },
      service_tier: 'auto',
    } as const;
    expect(textOf(await client.messages.create({ ...REQUEST, ...asked })).length).toBeGreaterThan(0);
  });
});

describe('the stream of a message', () => {
  it('has its events in the order of the protocol', async () => {
    const text = await (await post('/v1/messages', { ...REQUEST, stream: true })).text();
    const types = [...text.matchAll(/^event: (.*)\ndata: \{"type":"(.*?)"/gm)].map(([, event, type]) => {
      expect(event).toBe(type);
      return type;
    });
    const deltas = types.filter((type) => type === 'content_block_delta');
    expect(types).toEqual([
      'message_start',
      'ping',
      'content_block_start',
      ...deltas,
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(deltas.length).toBeGreaterThan(2);
  });

  it('adds up to the message in one piece', async () => {
    const stream = client.messages.stream(REQUEST);
    let text = '';
    stream.on('text', (piece) => {
      text += piece;
    });
    const final = await stream.finalMessage();
    const whole = await client.messages.create(REQUEST);
    expect(text).toBe(textOf(whole));
    expect({ ...final, parsed_output: null }).toEqual({
      ...whole,
      id: final.id,
      usage: final.usage,
      parsed_output: null,
    });
    expect(final.usage.output_tokens).toBe(12);
  });

  it('that a client leaves ends its work', async () => {
    const stream = client.messages.stream({ ...REQUEST, max_tokens: 400 });
    for await (const event of stream) if (event.type === 'content_block_delta') break;
    await until(() => isIdle(svc.engine));
  });
});

describe('a tool', () => {
  const tools: Anthropic.Tool[] = [
    {
      name: 'weather',
      description: 'of a city',
      input_schema: {
        type: 'object',
        properties: { city: { enum: ['Oslo'] } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  ];
  // A random model would write spaces for ever.
  const bad_words = [' ', '\n', '\t', '\r'];
  const asked = { ...REQUEST, max_tokens: 200, tools, tool_choice: { type: 'any' as const }, bad_words };

  it('is called, and its result answered', async () => {
    const message = await client.messages.create(asked);
    expect(message.stop_reason).toBe('tool_use');
    const [call] = message.content.filter((block) => block.type === 'tool_use');
    expect(call).toMatchObject({ name: 'weather', input: { city: 'Oslo' } });
    const answered = await client.messages.create({
      ...REQUEST,
      messages: [
        ...MESSAGES,
        { role: 'assistant', content: message.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call!.id, content: 'rain' }] },
      ],
    });
    expect(answered.usage.output_tokens).toBeGreaterThan(0);
  });

  it('is called in a stream as in one piece', async () => {
    const whole = await client.messages.create(asked);
    const streamed = await client.messages.stream(asked).finalMessage();
    const plain = ({ content }: Anthropic.Message): unknown[] =>
      content.map((block) => (block.type === 'tool_use' ? [block.name, block.input] : block));
    expect(plain(streamed)).toEqual(plain(whole));
  });
});

describe('the tokens of a conversation', () => {
  it('are counted as a message counts them, however long it is', async () => {
    const { input_tokens } = await client.messages.countTokens({ model: 'tiny', messages: MESSAGES });
    const { usage } = await client.messages.create({ ...REQUEST, cache_salt: 'own' } as typeof REQUEST);
    expect(input_tokens).toBe(usage.input_tokens);
    const long = [{ role: 'user' as const, content: 'sea '.repeat(3000) }];
    const counted = await client.messages.countTokens({ model: 'tiny', messages: long, system: 'be brief' });
    expect(counted.input_tokens).toBeGreaterThan(512);
    const cut = { model: 'tiny', messages: long, truncate_prompt_tokens: 9 };
    expect((await client.messages.countTokens(cut)).input_tokens).toBe(9);
  });

  it.each([
    [{ mcp_servers: [{ type: 'url' }] }, /mcp_servers is not available/],
    [
      { reasoning_effort: 'high', chat_template_kwargs: { messages: [] } },
      /chat_template_kwargs must not hold/,
    ],
  ])('are not counted for %j, which is refused', async (fields, message) => {
    const answer = await post('/v1/messages/count_tokens', { messages: MESSAGES, ...fields });
    expect([answer.status, (await bodyOf(answer)).error.message]).toEqual([
      400,
      expect.stringMatching(message),
    ]);
  });
});

describe('a request for a message is refused', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: '' } };

  it.each([
    [{ max_tokens: undefined }, /max_tokens is missing: it must be a number/],
    [{ max_tokens: 0 }, /max_tokens must be at least 1, got 0/],
    [{ max_tokens: 9999 }, /max_tokens must be at most 512/],
    [{ messages: [] }, /messages must have at least 1 element/],
    [
      { messages: [{ role: 'robot', content: '' }] },
      /messages\[0\]\.role must be "user" or "assistant", got "robot"/,
    ],
    [
      { messages: [{ role: 'user', content: [image] }] },
      /messages\[0\]\.content\[0\] is an image, and this model reads only text: leave it out/,
    ],
    [{ system: [image] }, /system\[0\]\.type must be "text"/],
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, /tools\[0\]\.type must be "custom"/],
    [{ stop_sequences: [''] }, /stop_sequences\[0\] must not contain empty strings/],
    [{ temperature: -1 }, /temperature must be at least 0/],
    [{ mcp_servers: [{ type: 'url' }] }, /mcp_servers is not available/],
  ])('for %j', async (fields, message) => {
    const asked = { ...REQUEST, ...fields };
    const error = await client.messages.create(asked as typeof REQUEST).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Anthropic.BadRequestError);
    const told = error instanceof Anthropic.APIError ? error.error : null;
    expect(told).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringMatching(message) },
    });
  });

  it('for a conversation that does not fit into the context', async () => {
    const messages = [{ role: 'user' as const, content: 'sea '.repeat(3000) }];
    await expect(client.messages.create({ ...REQUEST, messages })).rejects.toThrow(
      /the model's context is 512/,
    );
  });

  it('in the shape of its protocol, whatever is wrong', async () => {
    const refused = async (response: Promise<Response>): Promise<unknown[]> => {
      const { status, body } = await response.then(async (it) => ({
        status: it.status,
        body: await bodyOf(it),
      }));
      expect(Object.keys(body)).toEqual(['type', 'error']);
      return [status, body.error.type];
    };
    expect(await refused(svc.post('/v1/messages', REQUEST))).toEqual([401, 'authentication_error']);
    expect(await refused(svc.post('/v1/messages', REQUEST, { 'x-api-key': 'wrong' }))).toEqual([
      401,
      'authentication_error',
    ]);
    expect(await refused(post('/v1/messages', { ...REQUEST, model: 'other' }))).toEqual([
      404,
      'not_found_error',
    ]);
    expect(await refused(post('/v1/messages/count_tokens', { ...REQUEST, model: 'other' }))).toEqual([
      404,
      'not_found_error',
    ]);
    expect(await refused(post('/v1/messages?beta=true', '{'))).toEqual([400, 'invalid_request_error']);
    expect(await refused(post('/v1/messages/batches', {}))).toEqual([404, 'not_found_error']);
    const headers = { 'x-api-key': KEY };
    expect(await refused(fetch(`${svc.url}/v1/messages`, { headers }))).toEqual([
      405,
      'invalid_request_error',
    ]);
  });

  it('for more messages and results of tools than a conversation may have', async () => {
    const results = Array.from({ length: 1000 }, (_, id) => ({ type: 'tool_result', tool_use_id: `${id}` }));
    const asked = {
      ...REQUEST,
      messages: Array.from({ length: 5 }, () => ({ role: 'user', content: results })),
    };
    const error = await bodyOf(await post('/v1/messages', asked));
    expect(error.error.message).toMatch(/at most 4096 messages and results of tools, got 5000/);
  });

  it('in the shape of other routes on other routes', async () => {
    expect(Object.keys(await bodyOf(await svc.post('/v1/messagesx', {})))).toEqual(['error']);
  });

  it('but takes the key from either header, the standard one first', async () => {
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await fetch(`${svc.url}/v1/models`, { headers })).status;
    expect(await statusOf({ 'x-api-key': KEY })).toBe(200);
    expect(await statusOf({ 'x-api-key': 'wrong', authorization: `Bearer ${KEY}` })).toBe(200);
    expect(await statusOf({ 'x-api-key': KEY, authorization: 'Bearer wrong' })).toBe(401);
  });
});
