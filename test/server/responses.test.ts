// /v1/responses with the official client, and without where it would be in the way.

import { once } from 'node:events';
import { get } from 'node:http';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TINY_EOS_ID } from '../fixtures/tiny-tokenizer.ts';
import { until } from '../helpers/until.ts';
import {
  bodyOf,
  clientOf,
  errorOf,
  isIdle,
  startTestServer,
  TEMPLATE_OF_CALLS,
  type TestServer,
} from './test-server.ts';

const KEYS = ['first-key', 'second-key'] as const;
const REQUEST = {
  model: 'tiny',
  input: 'tell me of the sea',
  max_output_tokens: 12,
  temperature: 0,
} as const;

/** A random model would write spaces for ever where it may. */
const DENSE = { bad_words: [' ', '\n', '\t', '\r'] };

const COUNT = '/v1/responses/input_tokens';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({
    server: { apiKeys: KEYS, responseStore: { maxResponses: 50 } },
    engine: { chatTemplate: TEMPLATE_OF_CALLS },
  });
});
afterAll(() => svc.close());

function post(body: object): Promise<Response> {
  return svc.post('/v1/responses', body, { authorization: `Bearer ${KEYS[0]}` });
}

interface Event {
  readonly type: string;
  readonly sequence_number: number;
  readonly [field: string]: unknown;
}

async function streamed(body: object): Promise<Event[]> {
  const text = await (await post({ ...body, stream: true })).text();
  return [...text.matchAll(/^event: (.*)\ndata: (.*)$/gm)].map(([, type, data = '']) => {
    const event = JSON.parse(data);
    expect(event.type).toBe(type);
    return event;
  });
}

describe('a response', () => {
  it('is what a chat completion says', async () => {
    const chat = await svc.client.chat.completions.create({
      model: 'tiny',
      messages: [
        { role: 'system', content: 'be brief' },
        { role: 'user', content: REQUEST.input },
      ],
      max_tokens: 12,
      temperature: 0,
    });
    const response = await svc.client.responses.create({ ...REQUEST, instructions: 'be brief' });
    expect(response.output_text).toBe(chat.choices[0]?.message.content);
    expect(response.status).toBe('incomplete');
    expect(response.incomplete_details).toEqual({ reason: 'max_output_tokens' });
    expect(response.usage).toEqual({
      input_tokens: chat.usage?.prompt_tokens,
      input_tokens_details: { cached_tokens: expect.any(Number), cache_write_tokens: 0 },
      output_tokens: 12,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: chat.usage?.total_tokens,
    });
  });

  it('is complete where the model ends it, be it without a word', async () => {
    const response = await bodyOf(await post({ ...REQUEST, allowed_token_ids: [TINY_EOS_ID] }));
    expect(response).toMatchObject({ status: 'completed', incomplete_details: null, error: null });
    expect(response.output).toMatchObject([
      { type: 'message', status: 'completed', content: [{ text: '' }] },
    ]);
  });

  it('repeats what was asked for', async () => {
    const asked = {
      instructions: 'be brief',
      metadata: { topic: 'sea' },
      reasoning: { effort: 'low', summary: 'auto' },
      user: 'a person',
      safety_identifier: 'a hash',
      prompt_cache_key: 'a key',
      max_output_tokens: 11,
      top_logprobs: 1,
      top_p: 0.5,
      store: false,
    } as const;
    expect(await svc.client.responses.create({ ...REQUEST, ...asked })).toMatchObject(asked);
  });

  it('repeats its tools with what they leave out, and their numbers as numbers', async () => {
    const tools = `[{"type":"function","name":"f"},{"type":"custom","name":"g"},
      {"type":"function","name":"h","strict":true,"parameters":{"maximum":12345678901234567890}}]`;
    const text = `{"input":"a","max_output_tokens":1,"tool_choice":"none","tools":${tools}}`;
    const answer = await svc.post('/v1/responses', text, { authorization: `Bearer ${KEYS[0]}` });
    expect((await bodyOf(answer)).tools).toEqual([
      { type: 'function', name: 'f', description: null, parameters: null, strict: null },
      { type: 'custom', name: 'g', format: { type: 'text' } },
      {
        type: 'function',
        name: 'h',
        description: null,
        parameters: { maximum: 12345678901234567000 },
        strict: true,
      },
    ]);
  });

  it('counts what came from the cache', async () => {
    const long = { ...REQUEST, input: 'once upon a time '.repeat(8) };
    const cachedOf = ({ usage }: OpenAI.Responses.Response): number | undefined =>
      usage?.input_tokens_details.cached_tokens;
    await svc.client.responses.create(long);
    expect(cachedOf(await svc.client.responses.create(long))).toBeGreaterThan(0);
    const last = (await streamed(long)).at(-1);
    expect(last?.response).toHaveProperty('usage.input_tokens_details.cached_tokens', expect.any(Number));
    expect(last?.response).not.toHaveProperty('usage.input_tokens_details.cached_tokens', 0);
  });

  it('has log-probabilities where they are included', async () => {
    const include = ['message.output_text.logprobs'] as const;
    const response = await svc.client.responses.create({
      ...REQUEST,
      include: [...include],
      top_logprobs: 2,
    });
    const [message] = response.output;
    const [part] = message?.type === 'message' ? message.content : [];
    const logprobs = part?.type === 'output_text' ? (part.logprobs ?? []) : [];
    expect(logprobs).toHaveLength(12);
    for (const { top_logprobs } of logprobs) expect(top_logprobs).toHaveLength(2);
    expect(Object.keys(logprobs[0]!)).toEqual(['token', 'logprob', 'bytes', 'top_logprobs']);
  });
});

describe('the stream of a response', () => {
  it('has its events in the order of the protocol, each with the next number', async () => {
    const events = await streamed(REQUEST);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    const types = events.map(({ type }) => type);
    const deltas = types.filter((type) => type === 'response.output_text.delta');
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      ...deltas,
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.incomplete',
    ]);
    expect(deltas.length).toBeGreaterThan(2);
  });

  it('adds up to the response in one piece', async () => {
    const events = await streamed(REQUEST);
    const whole = await svc.client.responses.create(REQUEST);
    const text = events
      .map(({ type, delta }) => (type === 'response.output_text.delta' ? delta : ''))
      .join('');
    expect(text).toBe(whole.output_text);
    const last = JSON.parse(JSON.stringify(events.at(-1)?.response));
    const withoutIds = ({ id, created_at, output, ...fields }: OpenAI.Responses.Response): object => ({
      ...fields,
      usage: null,
      output: output.map((item) => ({ ...item, id: '' })),
    });
    expect(withoutIds({ ...last, output_text: text })).toEqual(withoutIds(whole));
  });

  it('is read by the helper of the client', async () => {
    const stream = svc.client.responses.stream(REQUEST);
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => {
      text += delta;
    });
    const final = await stream.finalResponse();
    expect(final.output_text).toBe(text);
    expect(final.output_text.length).toBeGreaterThan(0);
    expect((await svc.client.responses.retrieve(final.id)).output).toEqual(
      (await svc.client.responses.create(REQUEST)).output.map((item) => ({
        ...item,
        id: final.output[0]?.id,
      })),
    );
  });

  it('that a client leaves ends its work, and nothing is kept of it', async () => {
    const stream = await svc.client.responses.create({ ...REQUEST, max_output_tokens: 400, stream: true });
    let id = '';
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta') break;
    }
    await until(() => isIdle(svc.engine));
    await expect(svc.client.responses.retrieve(id)).rejects.toThrow(OpenAI.NotFoundError);
  });
});

describe('a response that was kept', () => {
  it('can be read, listed, and deleted', async () => {
    const { client } = svc;
    const made = await client.responses.create({ ...REQUEST, instructions: 'be brief' });
    const kept = await client.responses.retrieve(made.id);
    expect(kept).toEqual(made);
    const { data } = await client.responses.inputItems.list(made.id);
    expect(data).toMatchObject([{ type: 'message', role: 'user', content: [{ text: REQUEST.input }] }]);
    await client.responses.delete(made.id);
    await expect(client.responses.retrieve(made.id)).rejects.toThrow(OpenAI.NotFoundError);
    await expect(client.responses.delete(made.id)).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('is gone on with as if the whole conversation had been sent', async () => {
    const { client } = svc;
    const first = await client.responses.create(REQUEST);
    const next = { ...REQUEST, input: 'and of the land?' };
    const second = await client.responses.create({ ...next, previous_response_id: first.id });
    const whole = await client.responses.create({
      ...next,
      input: [
        { role: 'user', content: REQUEST.input },
        { role: 'assistant', content: first.output_text },
        { role: 'user', content: next.input },
      ],
    });
    expect(second.output_text).toBe(whole.output_text);
    expect(second.usage?.input_tokens).toBe(whole.usage?.input_tokens);
    expect(second.previous_response_id).toBe(first.id);
    const third = await client.responses.create({ ...next, previous_response_id: second.id });
    expect(third.usage?.input_tokens).toBeGreaterThan(second.usage?.input_tokens ?? 0);
  });

  it('has items to which a later request refers by their ids, as the ai SDK does', async () => {
    const { client } = svc;
    const first = await client.responses.create(REQUEST);
    const { data } = await client.responses.inputItems.list(first.id);
    const [asked, said] = [data[0]!, first.output[0]!];
    const more = { role: 'user' as const, content: 'and of the land?' };
    const refer = (id: string | undefined) => ({ type: 'item_reference' as const, id: `${id}` });
    const byId = await client.responses.create({
      ...REQUEST,
      input: [refer(asked.id), refer(said.id), more],
    });
    const whole = await client.responses.create({
      ...REQUEST,
      previous_response_id: first.id,
      input: [more],
    });
    expect(byId.output_text).toBe(whole.output_text);
    expect(byId.usage?.input_tokens).toBe(whole.usage?.input_tokens);
    const kept = await client.responses.inputItems.list(byId.id, { order: 'asc' });
    expect(kept.data.slice(0, 2)).toEqual([asked, said]);

    const refused = async (input: object[], key: string = KEYS[0]) =>
      errorOf(await svc.post('/v1/responses', { ...REQUEST, input }, { authorization: `Bearer ${key}` }));
    const twice = await refused([refer(said.id), refer(said.id)]);
    expect(twice).toMatchObject({ status: 400, param: 'input', message: expect.stringContaining('twice') });
    const absent = { status: 404, param: 'input', message: expect.stringContaining('store: false') };
    expect(await refused([refer(said.id)], KEYS[1])).toMatchObject(absent);
    for (const id of ['msg_none_0', `${said.id}0`, '_'])
      expect(await refused([refer(id)])).toMatchObject(absent);
    await client.responses.delete(first.id);
    expect(await refused([refer(said.id)])).toMatchObject(absent);
  });

  it('has pages of what it was told, from either end', async () => {
    const input = Array.from({ length: 5 }, (_, index) => ({ role: 'user' as const, content: `${index}` }));
    const { id } = await svc.client.responses.create({ ...REQUEST, input });
    const read = async (query: OpenAI.Responses.InputItemListParams): Promise<string> => {
      const texts: string[] = [];
      for await (const item of svc.client.responses.inputItems.list(id, query)) {
        if (item.type === 'message')
          texts.push(...item.content.map((part) => ('text' in part ? part.text : '')));
      }
      return texts.join('');
    };
    expect(await read({})).toBe('43210');
    expect(await read({ order: 'asc', limit: 2 })).toBe('01234');
    const all = await svc.client.responses.inputItems.list(id, { limit: 5 });
    expect([all.data.length, all.has_more]).toEqual([5, false]);
    const url = `${svc.url}/v1/responses/${id}/input_items?after=${all.data.at(-1)?.id}`;
    const rest = await fetch(url, { headers: { authorization: `Bearer ${KEYS[0]}` } });
    expect(await bodyOf(rest)).toEqual({
      object: 'list',
      data: [],
      first_id: '',
      last_id: '',
      has_more: false,
    });
    await expect(svc.client.responses.inputItems.list(id, { limit: 0 })).rejects.toThrow(
      /limit must be at least 1/,
    );
  });

  it('counts as the objects that it is kept as, not as the bytes that it came in', async () => {
    const own = await startTestServer({
      model: { config: { max_position_embeddings: 8192 } },
      server: { responseStore: { maxBytes: 256 * 1024 } },
    });
    try {
      // 6 kB in the body.
      const input = new Array(200).fill({ role: 'user', content: '' });
      const ids: string[] = [];
      for (let times = 0; times < 3; times += 1)
        ids.push((await own.client.responses.create({ ...REQUEST, input })).id);
      const found = ids.map(async (id) => (await fetch(`${own.url}/v1/responses/${id}`)).status);
      expect(await Promise.all(found)).toEqual([404, 404, 200]);
    } finally {
      await own.close();
    }
  });

  it('counts with the items that it refers to', async () => {
    const own = await startTestServer({
      model: { config: { max_position_embeddings: 8192 } },
      server: { responseStore: { maxBytes: 24 * 1024 } },
    });
    try {
      const told = await own.client.responses.create({ ...REQUEST, input: 'sea '.repeat(1000) });
      const { data } = await own.client.responses.inputItems.list(told.id);
      const { id } = await own.client.responses.create({
        ...REQUEST,
        input: [
          { type: 'item_reference', id: `${data[0]?.id}` },
          { role: 'user', content: 'sea '.repeat(500) },
        ],
      });
      expect((await own.client.responses.retrieve(id)).id).toBe(id);
      await expect(own.client.responses.retrieve(told.id)).rejects.toThrow(OpenAI.NotFoundError);
    } finally {
      await own.close();
    }
  });

  it('is read by a query that has each name once', async () => {
    const { id } = await svc.client.responses.create(REQUEST);
    const headers = { authorization: `Bearer ${KEYS[0]}` };
    for (const query of ['stream=true&stream=true', 'stream=true']) {
      const answered = await fetch(`${svc.url}/v1/responses/${id}?${query}`, { headers });
      expect(await errorOf(answered)).toMatchObject({ status: 400, param: 'stream' });
    }
  });

  it('is not kept where the request says so', async () => {
    const { id } = await svc.client.responses.create({ ...REQUEST, store: false });
    await expect(svc.client.responses.retrieve(id)).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('is found by nobody who shows another key', async () => {
    const { id } = await svc.client.responses.create(REQUEST);
    const other = clientOf(svc.url, KEYS[1]);
    await expect(other.responses.retrieve(id)).rejects.toThrow(OpenAI.NotFoundError);
    await expect(other.responses.delete(id)).rejects.toThrow(OpenAI.NotFoundError);
    await expect(other.responses.create({ ...REQUEST, previous_response_id: id })).rejects.toThrow(
      OpenAI.NotFoundError,
    );
    expect((await svc.client.responses.retrieve(id)).id).toBe(id);
  });

  it('is found from every address where the server has no keys', async () => {
    const own = await startTestServer();
    try {
      const { id } = await own.client.responses.create(REQUEST);
      const other = get({
        host: '127.0.0.1',
        port: own.server.port,
        path: `/v1/responses/${id}`,
        localAddress: '127.0.0.2',
      });
      const [answer] = await once(other, 'response');
      expect(answer.statusCode).toBe(200);
      answer.resume();
    } finally {
      await own.close();
    }
  });

  it.each([
    ['DELETE', '', 200],
    ['POST', '/cancel', 400],
  ])('takes a request of no body whose type is named (%s)', async (method, path, status) => {
    const { id } = await svc.client.responses.create(REQUEST);
    const headers = { authorization: `Bearer ${KEYS[0]}`, 'content-type': 'application/json' };
    const answered = await fetch(`${svc.url}/v1/responses/${id}${path}`, { method, headers });
    expect(answered.status).toBe(status);
    expect(await answered.text()).toContain(status === 200 ? '"deleted":true' : 'only background responses');
  });

  it('cannot be cancelled, since it is complete', async () => {
    const { id } = await svc.client.responses.create(REQUEST);
    await expect(svc.client.responses.cancel(id)).rejects.toThrow(
      /only background responses can be cancelled/,
    );
    await expect(svc.client.responses.cancel('resp_unknown')).rejects.toThrow(OpenAI.NotFoundError);
  });
});

describe('a function', () => {
  const tools: OpenAI.Responses.FunctionTool[] = [
    {
      type: 'function',
      name: 'weather',
      strict: true,
      parameters: {
        type: 'object',
        properties: { city: { enum: ['Oslo'] } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  ];
  const asked = { ...REQUEST, ...DENSE, max_output_tokens: 200, tools, tool_choice: 'required' as const };

  it('is called, and what it gave is answered, by the id of the response or with all its items', async () => {
    const { client } = svc;
    const called = await client.responses.create(asked);
    expect(called.status).toBe('completed');
    const [call] = called.output.filter((item) => item.type === 'function_call');
    expect(call).toMatchObject({ name: 'weather', arguments: '{"city":"Oslo"}', status: 'completed' });
    const given = { type: 'function_call_output' as const, call_id: call!.call_id, output: 'rain' };
    const byId = await client.responses.create({
      ...REQUEST,
      previous_response_id: called.id,
      input: [given],
    });
    const whole = await client.responses.create({
      ...REQUEST,
      input: [
        { role: 'user', content: REQUEST.input },
        ...called.output.filter((item) => item.type === 'function_call'),
        given,
      ],
    });
    expect(byId.output_text).toBe(whole.output_text);
    expect(byId.usage?.input_tokens).toBe(whole.usage?.input_tokens);
  });

  it('whose call was cut off is gone on with as one without arguments', async () => {
    const { client } = svc;
    const cut = await client.responses.create({ ...asked, stop: ['Oslo'] } as typeof asked);
    const [call] = cut.output.filter((item) => item.type === 'function_call');
    expect(call).toMatchObject({ arguments: '{"city":"', status: 'incomplete' });
    const byId = await client.responses.create({ ...REQUEST, previous_response_id: cut.id, input: 'again' });
    const again = async (item: object) =>
      client.responses.create({
        ...REQUEST,
        input: [
          { role: 'user', content: REQUEST.input },
          { ...call!, ...item },
          { role: 'user', content: 'again' },
        ],
      });
    for (const item of [{}, { arguments: '{}', status: 'completed' }])
      expect((await again(item)).usage?.input_tokens).toBe(byId.usage?.input_tokens);
    await expect(again({ status: 'completed' })).rejects.toThrow(
      'input[1].arguments must be the JSON text of an object, got "{\\"city\\":\\""',
    );
  });

  it('is called where it is the one that is allowed of several', async () => {
    const other = { ...tools[0]!, name: 'other' };
    const tool_choice = {
      type: 'allowed_tools' as const,
      mode: 'required' as const,
      tools: [{ type: 'function', name: 'weather' }],
    };
    const made = await svc.client.responses.create({ ...asked, tools: [other, ...tools], tool_choice });
    expect(made.output.find((item) => item.type === 'function_call')).toMatchObject({ name: 'weather' });
    expect(made.tool_choice).toEqual(tool_choice);
  });

  it('is called in a stream, by events of its arguments', async () => {
    const stream = svc.client.responses.stream(asked);
    let written = '';
    stream.on('response.function_call_arguments.delta', ({ delta }) => {
      written += delta;
    });
    const { output } = await stream.finalResponse();
    expect(output.find((item) => item.type === 'function_call')).toMatchObject({ arguments: written });
    expect(JSON.parse(written)).toEqual({ city: 'Oslo' });
  });
});

describe('the tokens of a conversation of items', () => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } };
  const tool = { type: 'function' as const, name: 'weather', strict: false, parameters };

  it('are counted as a response counts them', async () => {
    const { client } = svc;
    const first = await client.responses.create(REQUEST);
    const asked = {
      model: 'tiny',
      input: [{ role: 'user' as const, content: 'and of the wind' }],
      instructions: 'be brief',
      previous_response_id: first.id,
      tools: [tool],
      tool_choice: 'required' as const,
    };
    const { usage } = await client.responses.create({ ...asked, max_output_tokens: 1 });
    expect(usage?.input_tokens).toBeGreaterThan(first.usage!.input_tokens);
    expect(await client.responses.inputTokens.count(asked)).toEqual({
      object: 'response.input_tokens',
      input_tokens: usage?.input_tokens,
    });
  });

  it.each([4, -1])('are those that are kept where truncate_prompt_tokens is %d', async (kept) => {
    const asked = { ...REQUEST, input: 'sea '.repeat(2000), truncate_prompt_tokens: kept };
    const { usage } = await bodyOf(await post(asked));
    const counted = await bodyOf(await svc.post(COUNT, asked, { authorization: `Bearer ${KEYS[0]}` }));
    expect(counted.input_tokens).toBe(usage.input_tokens);
  });

  it('are counted where they are too many for the model', async () => {
    const { input_tokens } = await svc.client.responses.inputTokens.count({ input: 'sea '.repeat(3000) });
    expect(input_tokens).toBeGreaterThan(svc.engine.info.maxModelLen);
  });

  it.each([
    [{ input: [] }, 400, 'input'],
    [{ input: 'a', model: 'other' }, 404, null],
    [{ input: 'a', previous_response_id: 'resp_none' }, 404, 'previous_response_id'],
    [{ input: 'a', truncation: 'auto' }, 400, 'truncation'],
    [{ input: 'a', tool_choice: 'required' }, 400, 'tool_choice'],
  ])('are not counted for %j, which is refused', async (body, status, param) => {
    const answer = await svc.post(COUNT, body, { authorization: `Bearer ${KEYS[0]}` });
    expect(await errorOf(answer)).toMatchObject({ status, ...(param !== null && { param }) });
  });
});

it('the fields of chats that say what an answer must be, and what templates are told, are served', async () => {
  const choice = { structured_outputs: { choice: ['calm', 'wild'] } };
  const { output_text } = await svc.client.responses.create({ ...REQUEST, ...choice });
  expect(['calm', 'wild']).toContain(output_text);
  const both = { ...choice, text: { format: { type: 'json_object' } } };
  expect(await errorOf(await post({ ...REQUEST, ...both }))).toMatchObject({
    status: 400,
    param: 'text',
    message: expect.stringMatching(/^text and structured_outputs both say/),
  });
  const reserved = { chat_template_kwargs: { messages: [] } };
  expect(await errorOf(await post({ ...REQUEST, ...reserved }))).toMatchObject({
    status: 400,
    param: 'chat_template_kwargs',
  });
});

describe('a response that must be JSON', () => {
  it('is read by the helper of the client', async () => {
    const schema = {
      type: 'object',
      properties: { mood: { enum: ['calm', 'wild'] } },
      required: ['mood'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema' as const, name: 'sea', strict: true, schema };
    const parsed = await svc.client.responses.parse({
      ...REQUEST,
      ...DENSE,
      max_output_tokens: 80,
      text: { format },
    });
    expect(parsed.status).toBe('completed');
    expect(['calm', 'wild']).toContain(JSON.parse(parsed.output_text).mood);
    expect(parsed.text).toMatchObject({ format });
  });
});

describe('a request for a response is refused', () => {
  it.each([
    [{ input: undefined }, 'input', /input is missing: it must be a string or an array/],
    [{ input: [] }, 'input', /at least 1 element/],
    [
      { input: [{ type: 'computer_call' }] },
      'input',
      /input\[0\]\.type must be "message", .* got "computer_call"/,
    ],
    [{ input: [{ role: 'robot', content: 'a' }] }, 'input', /input\[0\]\.role must be "user" or/],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
      'input',
      /input\[0\]\.content\[0\] is an image, and this model reads only text/,
    ],
    [{ tools: [{ type: 'web_search' }] }, 'tools', /tools\[0\]\.type must be "function".*got "web_search"/],
    [
      { tool_choice: { type: 'file_search' } },
      'tool_choice',
      /tool_choice\.type must be "function", "custom" or "allowed_tools"/,
    ],
    [{ background: true }, 'background', /background is not available/],
    [{ truncation: 'auto' }, 'truncation', /truncation is not available/],
    [{ text: { format: { type: 'xml' } } }, 'text', /text\.format\.type must be "text"/],
    [{ max_output_tokens: 1e6 }, 'max_output_tokens', /max_output_tokens must be at most 512/],
    [
      { max_output_tokens: 512 },
      'input_tokens',
      /and max_output_tokens asks for 512 more, .*: lower max_output_tokens to \d+$/,
    ],
    [{ min_tokens: 13 }, 'min_tokens', /min_tokens must be at most 12, the most tokens/],
    [{ metadata: { a: 1 } }, 'metadata', /metadata\.a must be a string/],
    [{ temperature: -1 }, 'temperature', /temperature must be at least 0/],
  ])('for %j', async (fields, param, message) => {
    const error = await errorOf(await post({ ...REQUEST, ...fields }));
    expect(error).toMatchObject({ status: 400, param });
    expect(error.message).toMatch(message);
  });

  it('for a conversation that does not fit into the context', async () => {
    const error = await errorOf(await post({ ...REQUEST, input: 'sea '.repeat(5000) }));
    expect(error).toMatchObject({ status: 400, param: 'input' });
  });

  it('for an earlier response that is not there, with 404', async () => {
    const error = await errorOf(await post({ ...REQUEST, previous_response_id: 'resp_none' }));
    expect(error).toMatchObject({ status: 404, param: 'previous_response_id', type: 'NotFoundError' });
  });

  it('for a conversation that has grown beyond all items', async () => {
    const input = Array.from({ length: 4096 }, () => ({ role: 'user', content: '' }));
    expect((await errorOf(await post({ ...REQUEST, input: [...input, input[0]] }))).message).toMatch(
      /at most 4096/,
    );
  });

  it('for one that has grown beyond them by what went before', async () => {
    const inputOf = (length: number) => new Array(length).fill({ role: 'user', content: '' });
    const short = { ...REQUEST, max_output_tokens: 1, truncate_prompt_tokens: 5 };
    const { id } = await bodyOf(await post({ ...short, input: inputOf(4000) }));
    const next = (length: number) => post({ ...short, previous_response_id: id, input: inputOf(length) });
    expect((await next(95)).status).toBe(200);
    expect(await errorOf(await next(96))).toMatchObject({
      param: 'input',
      message: expect.stringMatching(/got 4097/),
    });
  });
});
