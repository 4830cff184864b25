import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  bodyOf,
  errorOf,
  eventsOf,
  FINGERPRINT,
  MODEL,
  startTestServer,
  type TestServer,
} from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

const MESSAGES = [
  { role: 'system' as const, content: 'be brief' },
  { role: 'user' as const, content: 'Hello' },
];
const REQUEST = { model: MODEL, messages: MESSAGES, temperature: 1, seed: 3, max_tokens: 10 };
const FIXED = { ...REQUEST, ignore_eos: true };

/** The prompt as text, as the model's template should have made it. */
async function promptOf(body: object): Promise<string> {
  const response = await svc.post('/v1/chat/completions', { ...FIXED, ...body, return_token_ids: true });
  const { prompt_token_ids } = await bodyOf(response);
  return svc.engine.tokenizer!.decode(prompt_token_ids, { skipSpecialTokens: false });
}

function refusal(body: object): ReturnType<typeof errorOf> {
  return svc.post('/v1/chat/completions', { ...FIXED, ...body }).then(errorOf);
}

describe('POST /v1/chat/completions', () => {
  it('answers with every field that the protocol names, nulls included', async () => {
    const response = await svc.post('/v1/chat/completions', FIXED);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: MODEL,
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: expect.any(String),
            refusal: null,
            annotations: [],
            audio: null,
            tool_calls: [],
            reasoning: null,
          },
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
          token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: {
        prompt_tokens: expect.any(Number),
        total_tokens: expect.any(Number),
        completion_tokens: 10,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: {
          reasoning_tokens: 0,
          audio_tokens: 0,
          accepted_prediction_tokens: 0,
          rejected_prediction_tokens: 0,
        },
      },
      prompt_logprobs: null,
      prompt_token_ids: null,
      kv_transfer_params: null,
    });
  });

  it('renders the conversation through the template of the model', async () => {
    expect(await promptOf({})).toBe('<s><|system|>be brief</s><|user|>Hello</s><|assistant|>');
    expect(await promptOf({ add_generation_prompt: false })).toBe(
      '<s><|system|>be brief</s><|user|>Hello</s>',
    );
    expect(await promptOf({ add_special_tokens: true })).toMatch(/^<s><s>/);
  });

  it('joins parts of text by line ends', async () => {
    const parts = ['one', 'two'].map((text) => ({ type: 'text', text }));
    expect(await promptOf({ messages: [{ role: 'user', content: parts }] })).toContain(
      '<|user|>one\ntwo</s>',
    );
  });

  it('goes on with the last message where that is asked for', async () => {
    const messages = [MESSAGES[1], { role: 'assistant', content: 'assistant was ' }];
    const open = { messages, continue_final_message: true };
    expect(await promptOf({ ...open, add_generation_prompt: false })).toBe(
      '<s><|user|>Hello</s><|assistant|>assistant was ',
    );
    expect(await promptOf(open)).toBe('<s><|user|>Hello</s><|assistant|>assistant was ');
    expect(await refusal({ ...open, add_generation_prompt: true })).toMatchObject({
      status: 400,
      param: 'continue_final_message',
    });
  });

  it('echoes the last message where its speaker is the one who answers', async () => {
    const messages = [MESSAGES[1], { role: 'assistant', content: 'I was' }];
    const plain = await svc.post('/v1/chat/completions', {
      ...FIXED,
      messages,
      continue_final_message: true,
    });
    const text = (await bodyOf(plain)).choices[0].message.content;
    const body = { ...FIXED, messages, continue_final_message: true, echo: true };
    const echoed = await svc.post('/v1/chat/completions', body);
    expect((await bodyOf(echoed)).choices[0].message).toMatchObject({
      role: 'assistant',
      content: `I was${text}`,
    });
    const stream = await svc.post('/v1/chat/completions', { ...body, stream: true });
    const deltas = eventsOf(await stream.text())
      .slice(0, -1)
      .map((event) => JSON.parse(event).choices[0].delta);
    expect(deltas.slice(0, 2)).toEqual([{ role: 'assistant', content: '' }, { content: 'I was' }]);
    expect(deltas.map(({ content }) => content).join('')).toBe(`I was${text}`);
  });

  it('streams a role first, then the same text, for each of n choices', async () => {
    const request = { ...REQUEST, n: 3, stream_options: { include_usage: true } };
    const whole = await svc.client.chat.completions.create({ ...REQUEST, n: 3 });
    const chunks = [];
    for await (const chunk of await svc.client.chat.completions.create({ ...request, stream: true })) {
      chunks.push(chunk);
    }
    for (const { index, message, finish_reason } of whole.choices) {
      const own = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
      expect(own[0]!.delta).toEqual({ role: 'assistant', content: '' });
      expect(own.slice(1).every(({ delta }) => delta.role === undefined)).toBe(true);
      expect(own.map(({ delta }) => delta.content).join('')).toBe(message.content);
      expect(own.at(-1)!.finish_reason).toBe(finish_reason);
    }
    expect(chunks.at(-1)!.choices).toEqual([]);
    expect(chunks.at(-1)!.usage).toEqual(whole.usage);
    expect(new Set(whole.choices.map(({ message }) => message.content)).size).toBe(3);
  });

  it('is understood by the stream helper of the official client', async () => {
    const runner = svc.client.chat.completions.stream(REQUEST);
    const whole = await svc.client.chat.completions.create(REQUEST);
    expect((await runner.finalChatCompletion()).choices[0]!.message.content).toBe(
      whole.choices[0]!.message.content,
    );
  });

  it('fills the context where no limit is given', async () => {
    const { max_tokens: _, ...unlimited } = FIXED;
    const { usage, choices } = await svc.client.chat.completions.create(unlimited);
    expect(usage!.total_tokens).toBe(512);
    expect(choices[0]!.finish_reason).toBe('length');
  });

  it.each(['max_tokens', 'max_completion_tokens'])(
    'names %s where prompt and answer do not fit',
    async (name) => {
      const { messages } = FIXED;
      const { message } = await errorOf(
        await svc.post('/v1/chat/completions', { messages, [name]: svc.engine.info.maxModelLen }),
      );
      expect(message).toMatch(new RegExp(`and ${name} asks for \\d+ more, .*: lower ${name} to \\d+$`));
    },
  );

  it('prefers max_completion_tokens to max_tokens', async () => {
    const { usage } = await svc.client.chat.completions.create({ ...FIXED, max_completion_tokens: 3 });
    expect(usage!.completion_tokens).toBe(3);
  });

  it('hands reasoning_effort and chat_template_kwargs to the template', async () => {
    expect((await refusal({ chat_template_kwargs: { messages: [] } })).message).toContain(
      'must not hold messages',
    );
    const response = await svc.post('/v1/chat/completions', {
      ...FIXED,
      reasoning_effort: 'low',
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(response.status).toBe(200);
  });

  it.each([
    [
      'more than the context holds',
      { messages: [{ role: 'user', content: 'abc '.repeat(900) }] },
      /^the prompt has \d+ tokens, the model's context is 512/,
    ],
    ['no messages', { messages: [] }, /^messages must have at least 1 element/],
    ['messages that are text', { messages: 'Hello' }, /^messages must be an array, got "Hello"$/],
    ['a message that is no object', { messages: [5] }, /^messages\[0\] must be an object, got 5$/],
    [
      'no role',
      { messages: [{ content: 'Hello' }] },
      /^messages\[0\]\.role is missing: it must be a string$/,
    ],
    ['no content', { messages: [{ role: 'user' }] }, /^messages\[0\]\.content must be a string or an array/],
    [
      'a number as content',
      { messages: [{ role: 'user', content: 5 }] },
      /content must be a string or an array, got 5$/,
    ],
    [
      'an image',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
      /^messages\[0\]\.content\[0\] is of type "image_url"/,
    ],
    [
      'a part of text without text',
      { messages: [{ role: 'user', content: [{ type: 'text' }] }] },
      /content\[0\]\.text must be a string/,
    ],
    [
      'a call without a function',
      { messages: [{ role: 'assistant', content: 'x', tool_calls: [{}] }] },
      /^messages\[0\]\.tool_calls\[0\]\.function is missing: it must be an object/,
    ],
    [
      'arguments that are no JSON',
      {
        messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: '{a' } }] }],
      },
      /^messages\[0\]\.tool_calls\[0\]\.function\.arguments must be the JSON text of an object, got "\{a"$/,
    ],
    [
      'a role that the template refuses',
      { messages: [{ role: 'pirate', content: 'Hello' }] },
      /role must be system, user or assistant, got pirate/,
    ],
  ])('refuses %s by name', async (_, body, message) => {
    expect(await refusal(body)).toMatchObject({
      status: 400,
      message: expect.stringMatching(message),
      param: 'messages',
    });
  });

  it.each([
    { tools: [] },
    { tool_choice: 'auto' },
    { function_call: 'auto' },
    { top_logprobs: 2 },
    { logprob_token_ids: [5] },
    { response_format: { type: 'xml' } },
    { structured_outputs: { json: {}, regex: 'a' } },
    { guided_json: { type: 'object' } },
    { guided_json: {} },
    { guided_choice: [] },
    { guided_regex: '' },
    { ec_transfer_params: { a: 1 } },
    { web_search_options: {} },
    { documents: 'a' },
    { chat_template: '{{ messages }}' },
    { priority: 1 },
    { cache_salt: '' },
    { length_penalty: 2 },
    { thinking_token_budget: 5 },
    { metadata: { a: 5 } },
    { modalities: ['audio'] },
  ])('refuses %j, naming the field', async (body) => {
    const { status, message, param } = await refusal(body);
    expect(status).toBe(400);
    expect(param).toBe(Object.keys(body)[0]);
    expect(message).toContain(param);
  });

  it.each(['json', 'regex', 'choice', 'grammar'])(
    'tells what has taken the place of guided_%s',
    async (kind) => {
      expect((await refusal({ [`guided_${kind}`]: 'a' })).message).toBe(
        `guided_${kind} is not available in svc; send the same as structured_outputs: {"${kind}": ...}`,
      );
    },
  );

  it('accepts the same fields where they ask for nothing', async () => {
    const response = await svc.post('/v1/chat/completions', {
      ...FIXED,
      tool_choice: 'none',
      parallel_tool_calls: true,
      logprobs: false,
      top_logprobs: 0,
      logit_bias: {},
      response_format: { type: 'text' },
      modalities: ['text'],
      tools: null,
      guided_json: null,
      vllm_xargs: {},
      ec_transfer_params: {},
      frequency_penalty: 0,
      user: 'me',
    });
    expect(response.status).toBe(200);
  });

  it.each([
    { store: true },
    { verbosity: 'low' },
    { tool_choice: 'none', tools: [{ type: 'function', function: { name: 'add' } }] },
    { messages: [MESSAGES[1], { role: 'assistant', content: null }, MESSAGES[1]] },
    { messages: [MESSAGES[1], { role: 'assistant' }, MESSAGES[1]] },
    { messages: [MESSAGES[1], { role: 'assistant', content: null, refusal: null, tool_calls: [] }] },
  ])('accepts %j', async (body) => {
    expect((await svc.post('/v1/chat/completions', { ...FIXED, ...body })).status).toBe(200);
  });

  it('leaves tools that must not be called out of the prompt, and an assistant that said nothing without words', async () => {
    const tools = [{ type: 'function', function: { name: 'add' } }];
    expect(await promptOf({ tool_choice: 'none', tools })).toBe(await promptOf({}));
    const messages = [MESSAGES[1], { role: 'assistant', content: null }];
    expect(await promptOf({ messages })).toBe('<s><|user|>Hello</s><|assistant|></s><|assistant|>');
  });

  it.each([
    { content: null, refusal: 'No.' },
    { content: '', refusal: 'No.' },
    { content: [{ type: 'refusal', refusal: 'No.' }] },
  ])('puts what an assistant refused with into the prompt: %j', async (message) => {
    const messages = [MESSAGES[1], { role: 'assistant', ...message }];
    expect(await promptOf({ messages })).toBe('<s><|user|>Hello</s><|assistant|>No.</s><|assistant|>');
  });

  it.each([
    [{ role: 'assistant', content: null, tool_calls: [{ id: 'a' }] }, 'messages[0].tool_calls[0].function'],
    [{ role: 'assistant', content: null, audio: { id: 'a' } }, 'messages[0].audio'],
    [{ role: 'assistant', content: [{ type: 'refusal' }] }, 'messages[0].content[0].refusal'],
    [{ role: 'user', content: null }, 'messages[0].content'],
  ])('refuses the message %j by name', async (message, name) => {
    const error = await refusal({ messages: [message, MESSAGES[1]] });
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining(name) });
  });

  it('gives the same answer n times where nothing is drawn', async () => {
    const body = { ...FIXED, temperature: 0, n: 3 };
    const { choices } = await bodyOf(await svc.post('/v1/chat/completions', body));
    const texts = choices.map(({ message }: { message: { content: string } }) => message.content);
    expect(texts).toEqual(new Array(3).fill(texts[0]));
    const stream = await svc.post('/v1/chat/completions', { ...body, stream: true });
    expect(
      new Set(eventsOf(await stream.text()).flatMap((data) => data.match(/"index":\d/g) ?? [])).size,
    ).toBe(3);
  });
});

describe('a model without a chat template', () => {
  it('refuses a chat and says where else to go', async () => {
    const plain = await startTestServer({ model: { tokenizer: false }, engine: { skipTokenizerInit: true } });
    const response = await plain.post('/v1/chat/completions', REQUEST);
    const { status, message } = await errorOf(response);
    expect(status).toBe(400);
    expect(message).toContain('--skip-tokenizer-init');
    await plain.close();
  });
});
