// Custom tools over HTTP, whose input is a text, with the official client. The model is too small to call them by itself: calls
// are enforced.

import type OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { faultsBy } from '../helpers/openai-schemas.ts';
import { bodyOf, errorOf, startTestServer, type TestServer } from './test-server.ts';

const TEMPLATE =
  '{% if tools %}<tools>{{ tools | tojson }}</tools>{# <tool_call>{"name": #}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}' +
  '{% for c in m.tool_calls %}<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.id }}</tool_call>{% endfor %}' +
  '{{ m.tool_call_id }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}';
const CHAT = '/v1/chat/completions';
const RESPONSES = '/v1/responses';
const USER = { role: 'user', content: 'Hello' } as const;

const REGEX = '(?:add|sub) \\d{2}\\n"\\w{3}"';
const INPUT = /^(?:add|sub) \d{2}\n"\w{3}"$/;
const description = 'Runs a program';
const CUSTOM = {
  type: 'custom',
  custom: {
    name: 'run',
    description,
    format: { type: 'grammar', grammar: { syntax: 'regex', definition: REGEX } },
  },
} satisfies OpenAI.ChatCompletionTool;
const CLOCK = { type: 'function', function: { name: 'clock' } } satisfies OpenAI.ChatCompletionTool;
const NAMED = { type: 'custom', custom: { name: 'run' } } satisfies OpenAI.ChatCompletionToolChoiceOption;
const ALLOWED: OpenAI.ChatCompletionAllowedToolChoice = {
  type: 'allowed_tools',
  allowed_tools: { mode: 'required', tools: [NAMED] },
};
const ASKED = { model: 'tiny', messages: [USER], tools: [CUSTOM, CLOCK], tool_choice: NAMED, temperature: 0 };

const RESPONSE_TOOL = {
  type: 'custom',
  name: 'run',
  description,
  format: { type: 'grammar', syntax: 'regex', definition: REGEX },
} satisfies OpenAI.Responses.CustomTool;
const RESPONSE = {
  model: 'tiny',
  input: 'Hello',
  tools: [RESPONSE_TOOL, { type: 'function', name: 'clock', parameters: null, strict: null }],
  tool_choice: { type: 'custom', name: 'run' },
  temperature: 0,
} satisfies OpenAI.Responses.ResponseCreateParams;

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat', engine: { chatTemplate: TEMPLATE } });
});
afterAll(() => svc.close());

async function tokensOf(body: object): Promise<unknown> {
  return (await bodyOf(await svc.post('/tokenize', body))).tokens;
}

function customCall({ choices: [choice] }: OpenAI.ChatCompletion) {
  const [call, ...others] = choice?.message.tool_calls ?? [];
  expect(others).toEqual([]);
  if (call?.type !== 'custom') throw new Error(`no call of a custom tool: ${JSON.stringify(choice)}`);
  return call;
}

describe('a custom tool of a chat', () => {
  const faults = faultsBy('CreateChatCompletionResponse');

  it('is called with an input that fits its grammar', async () => {
    const completion = await svc.client.chat.completions.create(ASKED);
    const call = customCall(completion);
    expect(call).toEqual({
      id: expect.stringMatching(/^call_/),
      type: 'custom',
      custom: { name: 'run', input: expect.stringMatching(INPUT) },
    });
    expect(completion.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: null } });
    expect(faults(completion)).toEqual([]);
  });

  it('is called in a stream by pieces of its input', async () => {
    const call = customCall(await svc.client.chat.completions.create(ASKED));
    const deltas: unknown[] = [];
    for await (const { choices } of await svc.client.chat.completions.create({ ...ASKED, stream: true })) {
      deltas.push(...(choices[0]?.delta.tool_calls ?? []));
    }
    const [first, ...others] = deltas;
    expect(first).toEqual({ ...call, index: 0, id: expect.any(String), custom: { name: 'run', input: '' } });
    expect(others.length).toBeGreaterThan(1);
    const pieces = z.array(
      z.strictObject({ index: z.literal(0), custom: z.strictObject({ input: z.string() }) }),
    );
    const input = pieces.parse(others).map(({ custom }) => custom.input);
    expect(input.join('')).toBe(call.custom.input);
  });

  it.each([
    ['required', 'required'],
    ['allowed', ALLOWED],
  ] as const)('is called where it is %s', async (_, tool_choice) => {
    const completion = await svc.client.chat.completions.create({
      ...ASKED,
      tools: [CUSTOM],
      tool_choice,
      parallel_tool_calls: false,
    });
    expect(customCall(completion).custom.input).toMatch(INPUT);
    expect(completion.choices[0]?.finish_reason).toBe('tool_calls');
  });

  it('may have a grammar with anchors of its own', async () => {
    const format = { type: 'grammar' as const, grammar: { syntax: 'regex' as const, definition: '^a{3}$' } };
    const tools = [{ type: 'custom' as const, custom: { name: 'run', format } }];
    const completion = await svc.client.chat.completions.create({ ...ASKED, tools });
    expect(customCall(completion).custom.input).toBe('aaa');
  });

  it('is called with any text where it has no grammar, as far as there is room', async () => {
    const free = { type: 'custom', custom: { name: 'run', format: { type: 'text' } } } as const;
    const completion = await svc.client.chat.completions.create({ ...ASKED, tools: [free], max_tokens: 40 });
    expect(customCall(completion).custom).toEqual({ name: 'run', input: expect.any(String) });
  });

  it('is a function of one string in the prompt, and so are its calls', async () => {
    const properties = { input: { type: 'string', pattern: `^(?:${REGEX})$` } };
    const parameters = { type: 'object', properties, required: ['input'] };
    const plain = { type: 'function', function: { name: 'run', description, parameters } };
    const messagesWith = (call: object) => [
      USER,
      { role: 'assistant', tool_calls: [{ id: 'call_1', ...call }] },
      { role: 'tool', tool_call_id: 'call_1', content: '3' },
    ];
    const custom = { type: 'custom', custom: { name: 'run', input: 'add 1\n"x"' } };
    const called = { name: 'run', arguments: '{"input": "add 1\\n\\"x\\""}' };
    const expected = await tokensOf({
      messages: messagesWith({ type: 'function', function: called }),
      tools: [plain],
    });
    expect(expected).toBeInstanceOf(Array);
    expect(await tokensOf({ messages: messagesWith(custom), tools: [CUSTOM] })).toEqual(expected);
  });
});

describe('a custom tool of a response', () => {
  it('is called, and what it gave is answered, by the id of the response or with all its items', async () => {
    const { client } = svc;
    const called = await client.responses.create(RESPONSE);
    expect(called).toMatchObject({ status: 'completed', tools: [RESPONSE_TOOL, { type: 'function' }] });
    const [call, ...others] = called.output;
    expect(others).toEqual([]);
    if (call?.type !== 'custom_tool_call') throw new Error('no call of a custom tool');
    expect(call).toEqual({
      type: 'custom_tool_call',
      id: expect.stringMatching(/^ctc_/),
      status: 'completed',
      call_id: expect.stringMatching(/^call_/),
      name: 'run',
      input: expect.stringMatching(INPUT),
    });
    const gave = { type: 'custom_tool_call_output' as const, call_id: call.call_id, output: '3' };
    const next = { model: 'tiny', temperature: 0, max_output_tokens: 8 };
    const byId = await client.responses.create({ ...next, previous_response_id: called.id, input: [gave] });
    const whole = await client.responses.create({ ...next, input: [USER, call, gave] });
    expect(byId.output_text).toBe(whole.output_text);
    expect(byId.usage?.input_tokens).toBe(whole.usage?.input_tokens);
    const asChat = [
      USER,
      {
        role: 'assistant',
        tool_calls: [{ id: call.call_id, type: 'custom', custom: { name: 'run', input: call.input } }],
      },
      { role: 'tool', tool_call_id: call.call_id, content: '3' },
    ];
    expect(await tokensOf({ messages: asChat })).toHaveLength(whole.usage!.input_tokens);
    const { data } = await client.responses.inputItems.list(byId.id, { order: 'asc' });
    expect(data.map(({ type }) => type)).toEqual(['message', 'custom_tool_call', 'custom_tool_call_output']);
  });

  it('is called in a stream, by events of its input', async () => {
    const whole = await svc.client.responses.create(RESPONSE);
    const stream = svc.client.responses.stream(RESPONSE);
    let written = '';
    const types: string[] = [];
    let done: unknown = null;
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === 'response.custom_tool_call_input.delta') written += event.delta;
      if (event.type === 'response.custom_tool_call_input.done') done = event;
    }
    const [call] = whole.output;
    if (call?.type !== 'custom_tool_call') throw new Error('no call of a custom tool');
    expect(written).toBe(call.input);
    expect(done).toMatchObject({ input: written, output_index: 0, item_id: expect.stringMatching(/^ctc_/) });
    expect([...new Set(types)]).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.custom_tool_call_input.delta',
      'response.custom_tool_call_input.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect((await stream.finalResponse()).output).toMatchObject([{ name: 'run', input: written }]);
  });

  it('is called where it is the one that is allowed of several', async () => {
    const tools = [{ type: 'custom', name: 'run' }];
    const made = await svc.client.responses.create({
      ...RESPONSE,
      tool_choice: { type: 'allowed_tools', mode: 'required', tools },
      parallel_tool_calls: false,
    });
    expect(made.output).toMatchObject([{ type: 'custom_tool_call', name: 'run' }]);
  });
});

describe('custom tools are refused', () => {
  const withFormat = (format: object) => ({ tools: [{ type: 'custom', custom: { name: 'run', format } }] });
  const grammar = (syntax: string, definition: string) => ({
    type: 'grammar',
    grammar: { syntax, definition },
  });
  const clash = { type: 'function', function: { name: 'run' } };

  it.each([
    [
      withFormat(grammar('lark', 'start: "a"')),
      'tools',
      /grammar\.syntax must be "regex", because .*Lark.* regular expression/,
    ],
    [withFormat(grammar('regex', '')), 'tools', /grammar\.definition must not be empty/],
    [
      withFormat(grammar('regex', 'a)|(b')),
      'tools',
      /definition must be a regular expression .*got "a\)\|\(b"/,
    ],
    [withFormat(grammar('regex', '(a)\\1')), 'tools', /"pattern" at \/properties\/input\/pattern .*\(a\)\\1/],
    [withFormat({ type: 'json' }), 'tools', /format\.type must be "text" or "grammar"/],
    [{ tools: [CUSTOM, clash] }, 'tools', /tools has two tools "run": names must differ/],
    [{ tools: [CUSTOM, CUSTOM] }, 'tools', /tools has two custom tools "run": names must differ/],
    [{ tools: [{ type: 'custom' }] }, 'tools', /tools\[0\]\.custom is missing: it must be an object/],
    [
      { tools: [clash], tool_choice: NAMED },
      'tool_choice',
      /names the custom tool "run", which is none of the tools/,
    ],
    [
      { tools: [CUSTOM], tool_choice: { type: 'function', function: { name: 'run' } } },
      'tool_choice',
      /names the function "run", which is none of the tools/,
    ],
    [
      { messages: [USER, { role: 'assistant', tool_calls: [{ type: 'custom', custom: { name: 'run' } }] }] },
      'messages',
      /custom\.input is missing: it must be a string/,
    ],
  ])('in a chat by their names: %j', async (body, param, message) => {
    const error = await errorOf(await svc.post(CHAT, { messages: [USER], max_tokens: 8, ...body }));
    expect(error).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });

  it.each([
    [
      {
        tools: [
          { type: 'custom', name: 'run', format: { type: 'grammar', syntax: 'lark', definition: 'a' } },
        ],
      },
      'tools',
      /format\.syntax must be "regex"/,
    ],
    [{ tool_choice: { type: 'custom', name: 'x' } }, 'tool_choice', /names the custom tool "x"/],
    [
      { input: [{ type: 'custom_tool_call', call_id: 'a', name: 'run' }] },
      'input',
      /input is missing: it must be a string/,
    ],
  ])('in a response by their names: %j', async (body, param, message) => {
    const error = await errorOf(await svc.post(RESPONSES, { ...RESPONSE, ...body }));
    expect(error).toMatchObject({ status: 400, param, message: expect.stringMatching(message) });
  });

  it('with a grammar where the model writes arguments between tags', async () => {
    const engine = { chatTemplate: TEMPLATE, toolCallParser: 'qwen3_coder' as const };
    const tagged = await startTestServer({ folder: 'models/svc-chat', engine });
    try {
      const error = await errorOf(await tagged.post(CHAT, { messages: [USER], tools: [CUSTOM] }));
      expect(error).toMatchObject({ status: 400, param: 'tools' });
      expect(error.message).toMatch(/"pattern" of the parameter input .* custom tool .*\{"type": "text"\}/);
    } finally {
      await tagged.close();
    }
  });
});
