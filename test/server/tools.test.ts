// Calls of functions and thoughts over HTTP. A model this small writes neither by itself: calls are enforced, or the tokens of
// an answer are given as those of a stream to go on with.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { MAX_BODY_AT_ONCE } from '../../src/http/json-parser.ts';
import { faultsBy } from '../helpers/openai-schemas.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { bodyOf, errorOf, eventsOf, startTestServer, type TestServer } from './test-server.ts';

const TEMPLATE =
  '{% if tools %}<tools>{{ tools | tojson }}</tools>{# <tool_call>{"name": <think></think> #}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}' +
  '{% for c in m.tool_calls %}<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.id }}</tool_call>{% endfor %}' +
  '{{ m.tool_call_id }}{{ m.reasoning_content }}{% endfor %}{% if add_generation_prompt %}[assistant]{{ opening | default("<think></think>") }}{% endif %}';

const WEATHER_PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string', enum: ['Paris', 'Rome'] }, days: { type: 'integer', enum: [1, 2] } },
  required: ['city', 'days'],
  additionalProperties: false,
};
const WEATHER = {
  type: 'function' as const,
  function: { name: 'get_weather', description: 'Weather of a city', parameters: WEATHER_PARAMETERS },
};
const CLOCK = {
  type: 'function',
  function: { name: 'clock', parameters: { type: 'object', properties: {}, additionalProperties: false } },
} as const;
const TOOLS = [WEATHER, CLOCK];
const MESSAGES = [{ role: 'user', content: 'Hello' }] as const;
const CHAT = { messages: MESSAGES, temperature: 0, max_tokens: 100 };
const PATH = '/v1/chat/completions';

function allowed(mode: 'auto' | 'required', ...names: readonly string[]) {
  const tools = names.map((name) => ({ type: 'function', function: { name } }) as const);
  return { type: 'allowed_tools', allowed_tools: { mode, tools } } as const;
}

/** Special tokens of the bundled model, by the names that other models give them. */
const HARMONY = ['<|channel|>', '<|message|>', '<|call|>', '<|constrain|>', '<|start|>', '<|end|>'];
const GEMMA4 = ['<pad>', '<bos>', '<turn|>', '<|tool_call>', '<tool_call|>', '<|"|>'];
const MISTRAL = ['<pad>', '<s>', '</s>', '[INST]', '[TOOL_CALLS]', '[ARGS]'];
const THOUGHTS = ['<pad>', '<s>', '</s>', '[INST]', '[THINK]', '[/THINK]'];

const FORMAT = { type: 'json_schema', json_schema: { name: 'answer', schema: { enum: ['yes'] } } };

const newFolder = temporaryFolders();
let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat', engine: { chatTemplate: TEMPLATE } });
});
afterAll(() => svc.close());

const toolCall = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
const message = z.object({
  content: z.string().nullable(),
  reasoning: z.string().nullable(),
  tool_calls: z.array(toolCall),
});
const answer = z.object({ choices: z.array(z.object({ message, finish_reason: z.string() })) });

const weatherArguments = z.strictObject({
  city: z.enum(['Paris', 'Rome']),
  days: z.union([z.literal(1), z.literal(2)]),
});

async function chat(body: object) {
  const response = await svc.post(PATH, { ...CHAT, ...body });
  const json = await bodyOf(response);
  expect(response.status, JSON.stringify(json)).toBe(200);
  return answer.parse(json).choices;
}

describe('calls that are enforced', () => {
  it('are of a function by its name, with arguments that fit its schema', async () => {
    const tool_choice = { type: 'function', function: { name: 'get_weather' } };
    const [choice] = await chat({ tools: TOOLS, tool_choice });
    expect(choice).toMatchObject({ finish_reason: 'stop', message: { content: null, reasoning: null } });
    const [call, ...others] = choice!.message.tool_calls;
    expect(others).toEqual([]);
    expect(call!.id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(call!.function.name).toBe('get_weather');
    weatherArguments.parse(JSON.parse(call!.function.arguments));
  });

  it.each([false, true])(
    'are no reason for an end that a stop text made within one (stream: %s)',
    async (stream) => {
      const body = { tools: [WEATHER], tool_choice: 'required', stop: ['city'], stream };
      const text = await (await svc.post(PATH, { ...CHAT, ...body })).text();
      expect(text).toContain('"finish_reason":"stop"');
      expect(text).toContain('"stop_reason":"city"');
      const behind = await (await svc.post(PATH, { ...CHAT, ...body, stop: ['</tool_call>'] })).text();
      expect(behind).toContain('"finish_reason":"tool_calls"');

      const { stop: stopsWithin, ...asked } = body;
      const tool = { type: 'function', ...WEATHER.function };
      const respond = async (stop: readonly string[]): Promise<string> =>
        (
          await svc.post('/v1/responses', { ...asked, input: 'Hello', temperature: 0, tools: [tool], stop })
        ).text();
      const cut = await respond(stopsWithin);
      expect(cut).toContain('"status":"incomplete","call_id"');
      expect(cut).toContain('"incomplete_details":null');
      expect(cut).not.toContain('"status":"completed"');
      expect(await respond(['</tool_call>'])).not.toContain('"status":"incomplete"');
    },
  );

  it('are no reason for an end that a stop token made within one, in any protocol', async () => {
    const asked = { tools: [WEATHER], tool_choice: 'required', return_token_ids: true };
    const { choices } = await bodyOf(await svc.post(PATH, { ...CHAT, ...asked }));
    const ids: number[] = choices[0].token_ids;
    const texts = ids.map((id) => svc.engine.tokenizer!.describe(id).text);
    const isWithin = (at: number) => texts.slice(0, at).join('').includes('"arguments": {');
    const within = ids.find((id, at) => isWithin(at) && ids.indexOf(id) === at);
    const stops = { temperature: 0, stop_token_ids: [within] };
    const [cut] = await chat({ ...asked, ...stops });
    expect(cut!.finish_reason).toBe('stop');
    expect(cut!.message.tool_calls).toHaveLength(1);

    const { name, parameters } = WEATHER.function;
    const message = { ...stops, messages: MESSAGES, max_tokens: 100, tool_choice: { type: 'any' } };
    const tools = [{ name, description: WEATHER.function.description, input_schema: parameters }];
    const answered = await bodyOf(await svc.post('/v1/messages', { ...message, tools }));
    expect(answered).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'tool_use', input: {} }] });
    const response = { ...stops, input: 'Hello', tool_choice: 'required' };
    const responseTools = [{ type: 'function', ...WEATHER.function }];
    const responded = await bodyOf(await svc.post('/v1/responses', { ...response, tools: responseTools }));
    expect(responded).toMatchObject({ status: 'incomplete', output: [{ status: 'incomplete' }] });
  });

  it('are of some function where one is required', async () => {
    const body = { tools: TOOLS, tool_choice: 'required', parallel_tool_calls: false, n: 2, temperature: 1 };
    for (const { message, finish_reason } of await chat(body)) {
      expect(finish_reason).toBe('tool_calls');
      expect(message.tool_calls).toHaveLength(1);
      expect(['get_weather', 'clock']).toContain(message.tool_calls[0]!.function.name);
    }
  });

  it('leave nothing of the mark after them where the answer is cut there', async () => {
    const body = { ...CHAT, tools: TOOLS, tool_choice: 'required', parallel_tool_calls: false };
    const { usage } = await bodyOf(await svc.post(PATH, body));
    for (let left = 1; left <= 8; left++) {
      const cut = { ...body, max_tokens: usage.completion_tokens - left };
      const [{ message, finish_reason }] = (await bodyOf(await svc.post(PATH, cut))).choices;
      expect(finish_reason).toBe('length');
      expect(message.content, `${left} tokens before the end`).toBeNull();
      expect(message.tool_calls).toHaveLength(1);
      const events = eventsOf(await (await svc.post(PATH, { ...cut, stream: true })).text());
      expect(joined(events)).toMatchObject({ content: '', calls: [{ name: expect.any(String) }] });
    }
  });

  it('come as deltas that the official client puts together to the same message', async () => {
    const body = {
      ...CHAT,
      model: 'tiny',
      messages: [...MESSAGES],
      tools: [...TOOLS],
      tool_choice: { type: 'function' as const, function: { name: 'get_weather' } },
    };
    const whole = await svc.client.chat.completions.create(body);
    const names: string[] = [];
    const stream = svc.client.chat.completions.stream(body);
    stream.on('tool_calls.function.arguments.done', ({ name }) => names.push(name));
    const [given] = (await stream.finalChatCompletion()).choices[0]!.message.tool_calls ?? [];
    const [expected] = whole.choices[0]!.message.tool_calls ?? [];
    expect(names).toEqual(['get_weather']);
    expect(expected?.type === 'function' && expected.function.arguments).toMatch(/^\{/);
    expect(given?.type === 'function' && given.function).toMatchObject(
      (expected?.type === 'function' && expected.function) || {},
    );
  });

  it('are run by the helper of the official client', async () => {
    const seen: unknown[] = [];
    const runner = svc.client.chat.completions.runTools({
      ...CHAT,
      model: 'tiny',
      messages: [...MESSAGES],
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: 'Weather of a city',
            parameters: WEATHER_PARAMETERS,
            parse: (text: string) => weatherArguments.parse(JSON.parse(text)),
            function: (args: z.output<typeof weatherArguments>) => {
              seen.push(args);
              return 'sunny';
            },
          },
        },
      ],
    });
    expect(await runner.finalFunctionToolCallResult()).toBe('sunny');
    expect(seen).toHaveLength(1);
  });
});

/** The stream of an answer whose text is `text`: its tokens are given as those of a stream to go on with. */
async function streamOf(
  text: string,
  body: object,
  server = svc,
): Promise<{ events: string[]; whole: string }> {
  const tokens = await server.engine.tokenizer!.encode(`${text}@@`, { addSpecialTokens: false });
  const response = await server.post(
    PATH,
    {
      ...CHAT,
      stop: '@@',
      max_tokens: tokens.length + 1,
      ...body,
      stream: true,
      svc_resume: { created: 1, choices: [tokens] },
    },
    { 'x-svc-journal': '1', 'x-request-id': 'fixed' },
  );
  const whole = await response.text();
  expect(response.status, whole).toBe(200);
  return { whole, events: eventsOf(whole.replace(/^: .*\n/gm, '')) };
}

const chunk = z.object({
  choices: z.array(
    z.object({
      delta: z.object({
        content: z.string().optional(),
        reasoning: z.string().optional(),
        reasoning_content: z.string().optional(),
        tool_calls: z
          .array(
            z.object({
              index: z.int(),
              id: z.string().optional(),
              type: z.string().optional(),
              function: z.object({ name: z.string().optional(), arguments: z.string() }),
            }),
          )
          .optional(),
      }),
      finish_reason: z.string().nullable(),
    }),
  ),
  usage: z.object({ completion_tokens_details: z.object({ reasoning_tokens: z.int() }) }).nullish(),
});

function joined(events: readonly string[]) {
  const calls: { id?: string | undefined; name?: string | undefined; arguments: string }[] = [];
  const texts = { content: '', reasoning: '' };
  let finish: string | null = null;
  let reasoningTokens = 0;
  for (const event of events.slice(0, -1)) {
    const { choices, usage } = chunk.parse(JSON.parse(event));
    reasoningTokens = usage?.completion_tokens_details.reasoning_tokens ?? reasoningTokens;
    for (const { delta, finish_reason } of choices) {
      texts.content += delta.content ?? '';
      texts.reasoning += delta.reasoning ?? '';
      expect(delta.reasoning_content).toBe(delta.reasoning);
      for (const { index, id, function: part } of delta.tool_calls ?? []) {
        calls[index] ??= { id, name: part.name, arguments: '' };
        calls[index].arguments += part.arguments;
      }
      finish = finish_reason ?? finish;
    }
  }
  return { ...texts, calls, finish, reasoningTokens };
}

const CALLS =
  '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>';
const TEXT = `<think>\nHm, well.\n</think>\n\nLet me see.\n${CALLS}`;

describe('calls that a model chooses to make', () => {
  it('come after thoughts and words, as deltas', async () => {
    const { events } = await streamOf(TEXT, { tools: TOOLS, stream_options: { include_usage: true } });
    const { reasoningTokens, ...answer } = joined(events);
    expect(answer).toEqual({
      content: 'Let me see.',
      reasoning: 'Hm, well.',
      finish: 'tool_calls',
      calls: [
        {
          id: expect.stringMatching(/^call_/),
          name: 'get_weather',
          arguments: '{"city": "Rome", "days": 2}',
        },
        { id: expect.stringMatching(/^call_/), name: 'clock', arguments: '{}' },
      ],
    });
    expect(answer.calls[0]!.id).not.toBe(answer.calls[1]!.id);
    expect(reasoningTokens).toBeGreaterThan(3);
  });

  it('are one at most where the request says so, and thoughts are left out where it asks for none', async () => {
    const body = { tools: TOOLS, parallel_tool_calls: false, include_reasoning: false };
    const { calls, reasoning } = joined((await streamOf(TEXT, body)).events);
    expect(calls).toHaveLength(1);
    expect(reasoning).toBe('');
  });

  it('are the same in a stream whose events have several tokens each', async () => {
    const single = (await streamOf(TEXT, { tools: TOOLS })).events;
    const several = (await streamOf(TEXT, { tools: TOOLS, stream_interval: 7 })).events;
    expect(several.length).toBeLessThan(single.length);
    expect(joined(several)).toEqual(joined(single));
  });

  it('are text where the request has no tools', async () => {
    const { content, calls, finish } = joined((await streamOf(TEXT, {})).events);
    expect({ content, calls, finish }).toEqual({
      content: `Let me see.\n${CALLS}`,
      calls: [],
      finish: 'stop',
    });
  });

  it('go on within a thought that the prompt has begun', async () => {
    const body = { tools: TOOLS, chat_template_kwargs: { opening: '<think>' } };
    const { content, reasoning } = joined((await streamOf('Hm.</think>4', body)).events);
    expect({ content, reasoning }).toEqual({ content: '4', reasoning: 'Hm.' });
  });

  it('are the same, ids included, when another instance writes the stream again', async () => {
    const body = { tools: TOOLS, logprobs: true };
    const { whole } = await streamOf(TEXT, body);
    expect((await streamOf(TEXT, body)).whole).toBe(whole);
    const shown = [...whole.matchAll(/^: \d+ ([\d,]+)$/gm)].flatMap(([, ids = '']) => ids.split(','));
    expect(shown.length).toBeGreaterThan(20);
  });
});

describe('some of the tools', () => {
  it('are those of which one is called, while the prompt has all', async () => {
    for (const name of ['get_weather', 'clock']) {
      const choice = { tool_choice: allowed('required', name), parallel_tool_calls: false };
      for (const { message } of await chat({ tools: TOOLS, ...choice, n: 3, temperature: 1 }))
        expect(message.tool_calls).toMatchObject([{ function: { name } }]);
    }
    const tokensOf = async (body: object) => (await bodyOf(await svc.post('/tokenize', body))).tokens;
    const [all, some] = await Promise.all(
      ['auto', allowed('auto', 'clock')].map((tool_choice) =>
        tokensOf({ messages: MESSAGES, tools: TOOLS, tool_choice }),
      ),
    );
    expect(some).toEqual(all);
  });
});

describe('functions, the older form of tools', () => {
  const FUNCTIONS = [WEATHER.function, CLOCK.function];
  const answerFaults = faultsBy('CreateChatCompletionResponse');
  const chunkFaults = faultsBy('CreateChatCompletionStreamResponse');
  const NAMED = { functions: FUNCTIONS, function_call: { name: 'get_weather' } };

  it('are called by name, and the call is the function_call of the message, without an id', async () => {
    const json = await bodyOf(await svc.post(PATH, { ...CHAT, ...NAMED }));
    const [{ message, finish_reason }] = json.choices;
    expect(finish_reason).toBe('stop');
    expect(message).toMatchObject({ content: null, function_call: { name: 'get_weather' } });
    expect(Object.keys(message.function_call)).toEqual(['name', 'arguments']);
    expect(Object.keys(message)).not.toContain('tool_calls');
    weatherArguments.parse(JSON.parse(message.function_call.arguments));
    expect(answerFaults(json)).toEqual([]);
  });

  it('come as deltas that the official client puts together to the same message', async () => {
    const body = { ...CHAT, model: 'tiny', messages: [...MESSAGES], ...NAMED };
    const whole = await svc.client.chat.completions.create(body);
    const streamed = await svc.client.chat.completions.stream(body).finalChatCompletion();
    const { function_call } = streamed.choices[0]!.message;
    expect(function_call).toEqual(whole.choices[0]!.message.function_call);
    expect(function_call?.name).toBe('get_weather');
  });

  it('are called once at most where the model chooses, which is then why it ended', async () => {
    const { events } = await streamOf(TEXT, { functions: FUNCTIONS });
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event));
    const parts = chunks.flatMap(({ choices: [{ delta }] }) => delta.function_call ?? []);
    expect(parts.map(({ name }) => name)).toEqual(['get_weather', ...parts.slice(1).map(() => undefined)]);
    expect(parts.map((part) => part.arguments).join('')).toBe('{"city": "Rome", "days": 2}');
    expect(parts.length).toBeGreaterThan(3);
    expect(chunks.at(-1).choices[0].finish_reason).toBe('function_call');
    expect(chunks.flatMap(({ choices: [{ delta }] }) => delta.tool_calls ?? [])).toEqual([]);
    for (const one of chunks) expect(chunkFaults(one)).toEqual([]);
  });

  it('are in the prompt like tools, unless none may be called', async () => {
    const tokensOf = async (fields: object) =>
      (await bodyOf(await svc.post('/tokenize', { messages: MESSAGES, ...fields }))).tokens;
    expect(await tokensOf({ functions: FUNCTIONS })).toEqual(await tokensOf({ tools: TOOLS }));
    expect(await tokensOf({ functions: FUNCTIONS, function_call: 'none' })).toEqual(await tokensOf({}));
    expect(await tokensOf({ function_call: 'none' })).toEqual(await tokensOf({}));
    expect(await tokensOf({ functions: FUNCTIONS, function_call: null })).toEqual(
      await tokensOf({ functions: FUNCTIONS, function_call: 'auto' }),
    );
  });

  it.each([
    [{ functions: [] }, 'functions', /^functions must have at least 1 element/],
    [{ functions: [{}] }, 'functions', /^functions\[0\]\.name/],
    [{ functions: FUNCTIONS, tools: TOOLS }, 'functions', /older form of tools/],
    [{ functions: [FUNCTIONS[0], FUNCTIONS[0]] }, 'functions', /^functions has two functions "get_weather"/],
    [{ functions: FUNCTIONS, function_call: 'required' }, 'function_call', /must be "none", "auto" or/],
    [
      { functions: FUNCTIONS, function_call: { name: 'x' } },
      'function_call',
      /^function_call names the function "x"/,
    ],
    [{ function_call: 'auto' }, 'function_call', /only for requests with functions/],
    [{ functions: FUNCTIONS, tool_choice: 'none' }, 'functions', /older form of tools: use one of the two/],
    [
      { ...NAMED, response_format: { type: 'json_object' } },
      'function_call',
      /^function_call asks for a call/,
    ],
    [{ ...NAMED, use_beam_search: true, n: 2 }, 'function_call', /beam search/],
  ])('are refused by their own names: %j', async (body, param, message) => {
    const error = await errorOf(await svc.post(PATH, { ...CHAT, ...body }));
    expect(error).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });
});

describe('tools of a request', () => {
  it.each([
    [
      { tools: [{ type: 'function', function: { name: 'a b' } }] },
      'tools',
      /^tools\[0\]\.function\.name must have letters/,
    ],
    [{ tools: [{ type: 'search', function: { name: 'a' } }] }, 'tools', /must be "function" or "custom"/],
    [{ tools: [WEATHER, WEATHER] }, 'tools', /two functions "get_weather"/],
    [
      { tools: [{ type: 'function', function: { name: 'a', parameters: { type: 'array' } } }] },
      'tools',
      /must be "object"/,
    ],
    [
      { tools: [{ type: 'function', function: { name: 'a', parameters: 5 } }] },
      'tools',
      /parameters must be an object/,
    ],
    [{ tools: TOOLS, tool_choice: 'some' }, 'tool_choice', /must be "none", "auto", "required"/],
    [
      { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'x' } } },
      'tool_choice',
      /"x", which is none of the tools/,
    ],
    [{ tool_choice: 'required' }, 'tool_choice', /only for requests with tools/],
    [{ tools: TOOLS, tool_choice: allowed('auto', 'x') }, 'tool_choice', /"x", which is none of the tools/],
    [{ tools: TOOLS, tool_choice: allowed('auto') }, 'tool_choice', /tools must have at least 1 element/],
    [
      { tools: TOOLS, tool_choice: { ...allowed('auto', 'clock'), type: 'some' } },
      'tool_choice',
      /type must be "function", "custom" or "allowed_tools"/,
    ],
    [
      { tools: TOOLS, tool_choice: 'required', response_format: { type: 'json_object' } },
      'tool_choice',
      /response_format/,
    ],
    [{ tools: TOOLS, tool_choice: 'required', use_beam_search: true, n: 2 }, 'tool_choice', /beam search/],
  ])('are refused by name: %j', async (body, param, message) => {
    const error = await errorOf(await svc.post(PATH, { ...CHAT, ...body }));
    expect(error).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });

  it('are in the prompt, with earlier calls and their results', async () => {
    const id = 'call_1';
    const called = { name: 'get_weather', arguments: '{"city":"Rome"}' };
    const messages = [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
      {
        role: 'assistant',
        content: null,
        reasoning: 'Hm.',
        tool_calls: [{ id, type: 'function', function: called }],
      },
      { role: 'tool', tool_call_id: id, content: [{ type: 'text', text: 'sunny' }] },
      { role: 'assistant', function_call: { name: 'clock', arguments: '' } },
      { role: 'function', name: 'clock', content: 'noon' },
    ];
    const body = {
      ...CHAT,
      messages,
      tools: [{ ...CLOCK, function: { ...CLOCK.function, strict: true } }],
      max_tokens: 1,
      return_token_ids: true,
    };
    const { prompt_token_ids } = await bodyOf(await svc.post(PATH, body));
    const prompt = await svc.engine.tokenizer!.decode(prompt_token_ids, { skipSpecialTokens: false });
    expect(prompt).toBe(
      `<tools>[${'{"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}}'}]</tools>` +
        '[system]Be brief.[user]Hello[assistant]<tool_call>get_weather {"city": "Rome"} call_1</tool_call>Hm.' +
        '[tool]sunnycall_1[assistant]<tool_call>clock {} </tool_call>[tool]noon[assistant]<think></think>',
    );
  });
});

it('a model whose template shows no calls refuses to choose, and says what to do', async () => {
  const plain = await startTestServer();
  try {
    const error = await errorOf(await plain.post(PATH, { ...CHAT, tools: TOOLS }));
    expect(error).toMatchObject({ status: 400, param: 'tool_choice' });
    expect(error.message).toContain('--tool-call-parser');
    const client = new OpenAI({ baseURL: `${plain.url}/v1`, apiKey: 'none', maxRetries: 0 });
    await expect(
      client.chat.completions.create({ ...CHAT, model: 'tiny', messages: [...MESSAGES], tools: [...TOOLS] }),
    ).rejects.toThrow(OpenAI.BadRequestError);
  } finally {
    await plain.close();
  }
});

describe('what a prompt with tools is', () => {
  it('is told by /tokenize, renderings and the counts of other protocols as the chat has it', async () => {
    const asked = { messages: MESSAGES, tools: [WEATHER] };
    const chatted = await bodyOf(await svc.post(PATH, { ...asked, max_tokens: 1, return_token_ids: true }));
    const { tokens } = await bodyOf(await svc.post('/tokenize', asked));
    expect(tokens).toEqual(chatted.prompt_token_ids);
    expect((await bodyOf(await svc.post(`${PATH}/render`, asked))).token_ids).toEqual(tokens);
    const { name, description, parameters: input_schema } = WEATHER.function;
    const counted = { messages: MESSAGES, tools: [{ name, description, input_schema }] };
    expect(await bodyOf(await svc.post('/v1/messages/count_tokens', counted))).toEqual({
      input_tokens: tokens.length,
    });
    const items = { input: MESSAGES, tools: [{ type: 'function', ...WEATHER.function }] };
    expect((await bodyOf(await svc.post('/v1/responses/input_tokens', items))).input_tokens).toBe(
      tokens.length,
    );
    const idle = await bodyOf(await svc.post('/tokenize', { ...asked, tool_choice: 'none' }));
    expect(idle.tokens).toEqual((await bodyOf(await svc.post('/tokenize', { messages: MESSAGES }))).tokens);
    expect(idle.count).toBeLessThan(tokens.length);
  });

  describe('has numbers as they were written', () => {
    const schema =
      '{"type": "object", "properties": {"x": {"type": "number", "default": 1.0, "maximum": 1e20}, "id": {"type": "integer", "maximum": 12345678901234567890}}}';
    const given = '{"x": 20.0, "id": 12345678901234567890, "y": [0.5, 3]}';
    const called = (args: string) =>
      `[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":${args}}}]}]`;
    const shownTools = `<tools>[{"type": "function", "function": {"name": "f", "description": "", "parameters": ${schema.replace('1e20', '1e+20')}}}]</tools>`;

    async function promptOf(path: string, body: string): Promise<string> {
      const { tokens, token_ids } = await bodyOf(await svc.post(path, body));
      return svc.engine.tokenizer!.decode(tokens ?? token_ids, { skipSpecialTokens: false });
    }

    it.each([
      ['a call as text', JSON.stringify(given)],
      ['a call as an object', given],
    ])('%s', async (_, args) => {
      const tools = `[{"type":"function","function":{"name":"f","parameters":${schema}}}]`;
      for (const padding of ['', 'x'.repeat(2 * MAX_BODY_AT_ONCE)]) {
        const body = `{"user":"${padding}","temperature":1.0,"messages":${called(args)},"tools":${tools}}`;
        const prompt = await promptOf('/tokenize', body);
        expect(prompt).toContain(shownTools);
        expect(prompt).toContain(`<tool_call>f ${given} 1</tool_call>`);
      }
    });

    it('a call in blocks', async () => {
      const tokensOf = async (path: string, body: string) => bodyOf(await svc.post(path, body));
      const block = `{"type":"tool_use","id":"1","name":"f","input":${given}}`;
      const messages = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[${block}]}]`;
      const counted = `{"messages":${messages},"tools":[{"name":"f","input_schema":${schema}}]}`;
      const chat = `{"messages":${called(given)},"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`;
      const { input_tokens } = await tokensOf('/v1/messages/count_tokens', counted);
      const { count, tokens } = await tokensOf('/tokenize', chat);
      expect([count, input_tokens]).toEqual([tokens.length, tokens.length]);
    });

    it('and tools have them where their calls are enforced, and in answers that repeat them', async () => {
      const enforced = `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}]}`;
      expect((await svc.post(PATH, enforced)).status).toBe(200);
      const repeated = `{"input":"Hi","max_output_tokens":2,"tools":[{"type":"function","name":"f","parameters":${schema}}]}`;
      const { tools } = await bodyOf(await svc.post('/v1/responses', repeated));
      expect(tools[0].parameters).toEqual(JSON.parse(schema));
    });
  });
});

/** The bundled model with other names for its special tokens. */
async function startRenamed(names: readonly string[], engine: Partial<EngineConfig>): Promise<TestServer> {
  const folder = newFolder();
  cpSync('models/svc-chat', folder, { recursive: true });
  for (const file of ['tokenizer.json', 'tokenizer_config.json']) {
    const path = join(folder, file);
    const written = ['<|pad|>', '<|begin|>', '<|end|>', '<|system|>', '<|user|>', '<|assistant|>'].reduce(
      (text, old, id) => text.replaceAll(JSON.stringify(old), `"renamed ${id}"`),
      readFileSync(path, 'utf8'),
    );
    writeFileSync(
      path,
      names.reduce((text, name, id) => text.replaceAll(`"renamed ${id}"`, JSON.stringify(name)), written),
    );
  }
  return startTestServer({ folder, engine });
}

describe('special tokens around calls', () => {
  const tokenIds = z.object({ choices: z.array(z.object({ token_ids: z.array(z.number()) })) });

  async function askOf(own: TestServer, body: object) {
    const json = await bodyOf(await own.post(PATH, { ...CHAT, return_token_ids: true, ...body }));
    const [choice] = answer.parse(json).choices;
    const [ids] = tokenIds.parse(json).choices.map(({ token_ids }) => token_ids);
    const special = ids!.filter((id) => id < 6);
    return { ...choice!, special };
  }

  it('are those of harmony, in calls and in answers of a given form', async () => {
    const turn = '{% for m in messages %}{{ m.content }}{% endfor %}<|start|>assistant';
    const own = await startRenamed(HARMONY, { chatTemplate: turn, toolCallParser: 'openai' });
    const nameOf = ({ special }: { special: readonly number[] }) => special.map((id) => HARMONY[id]);
    // A model this small never ends a thought.
    const thoughts = await Promise.all(
      ['a', 'an', 'ana', 'anal', 'analysis'].map((text) =>
        own.engine.tokenizer!.encode(text, { addSpecialTokens: false }),
      ),
    );
    const logit_bias = Object.fromEntries(thoughts.map(([first]) => [first, -100]));
    const call = await askOf(own, { tools: [CLOCK], tool_choice: 'required', logit_bias });
    expect(call).toMatchObject({
      message: { content: null, tool_calls: [{ function: { name: 'clock', arguments: '{}' } }] },
    });
    expect(nameOf(call)).toEqual(['<|channel|>', '<|constrain|>', '<|message|>', '<|call|>']);
    const said = await askOf(own, { response_format: FORMAT, logit_bias });
    expect(said.message).toMatchObject({ content: '"yes"', tool_calls: [] });
    expect(nameOf(said)).toEqual(['<|channel|>', '<|message|>', '<|call|>']);
    await own.close();
  });

  it('are those of Gemma 4, around calls and their texts', async () => {
    const own = await startRenamed(GEMMA4, {
      chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}{# <|tool_call>call: #}',
    });
    const call = await askOf(own, {
      tools: TOOLS,
      tool_choice: { type: 'function', function: { name: 'get_weather' } },
    });
    expect(call.message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: 'get_weather' } }],
    });
    weatherArguments.parse(JSON.parse(call.message.tool_calls[0]!.function.arguments));
    expect(call.special.map((id) => GEMMA4[id])).toEqual([
      '<|tool_call>',
      '<|"|>',
      '<|"|>',
      '<tool_call|>',
      '<turn|>',
    ]);
    await own.close();
  });

  it('are those of Mistral, and may come in the text of a model that chooses to call', async () => {
    const own = await startRenamed(MISTRAL, {
      chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}[ARGS]',
      toolCallParser: 'mistral',
    });
    const named = { type: 'function', function: { name: 'clock' } };
    const call = await askOf(own, { tools: [CLOCK], tool_choice: named });
    expect(call.message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: 'clock', arguments: '{}' } }],
    });
    expect(call.special.map((id) => MISTRAL[id])).toEqual(['[TOOL_CALLS]', '[ARGS]', '</s>']);
    const strict = { ...CLOCK, function: { ...CLOCK.function, strict: true } };
    const chosen = await askOf(own, {
      tools: [strict],
      parallel_tool_calls: false,
      logit_bias: { [MISTRAL.indexOf('[TOOL_CALLS]')]: 100 },
    });
    expect(chosen.message.tool_calls).toMatchObject([{ function: { name: 'clock', arguments: '{}' } }]);
    await own.close();
  });

  it('are those of thoughts as well, of which no text tells', async () => {
    const own = await startRenamed(THOUGHTS, {
      chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}',
      reasoningParser: 'mistral',
    });
    const { content, reasoning } = joined((await streamOf('[THINK]Hm.[/THINK]4', {}, own)).events);
    expect({ content, reasoning }).toEqual({ content: '4', reasoning: 'Hm.' });
    await own.close();
  });
});
