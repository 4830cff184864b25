// Fields of requests that change the prompt, the choice of what comes back, or its pieces.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isRepeating } from '../../src/scheduler/repetition.ts';
import { bodyOf, eventsOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ server: { trustsRequestTemplates: true } });
});
afterAll(() => svc.close());

const MESSAGES = [{ role: 'user', content: 'Hello' }];
const COMPLETION = { model: MODEL, prompt: 'Hello', max_tokens: 12, ignore_eos: true, seed: 3 };
const CHAT = { model: MODEL, messages: MESSAGES, max_tokens: 4, ignore_eos: true, seed: 3 };

async function complete(fields: object) {
  const response = await svc.post('/v1/completions', { ...COMPLETION, ...fields });
  expect(response.status).toBe(200);
  return bodyOf(response);
}

async function chat(fields: object, server = svc) {
  const response = await server.post('/v1/chat/completions', { ...CHAT, ...fields });
  expect(response.status).toBe(200);
  return bodyOf(response);
}

/** The text of the prompt that a chat was made into. */
async function promptOf(fields: object, server = svc): Promise<string> {
  const { prompt_token_ids } = await chat({ ...fields, return_token_ids: true }, server);
  return server.engine.tokenizer!.decode(prompt_token_ids, { skipSpecialTokens: false });
}

describe('best_of', () => {
  it('keeps the samples that were most probable on average, the best first', async () => {
    const { choices: all } = await complete({ n: 6, logprobs: 0 });
    const mean = (list: number[]): number => list.reduce((sum, one) => sum + one, 0) / list.length;
    const ranked = all.toSorted(
      (a: (typeof all)[0], b: (typeof all)[0]) =>
        mean(b.logprobs.token_logprobs) - mean(a.logprobs.token_logprobs),
    );
    const { choices, usage } = await complete({ n: 2, best_of: 6 });
    expect(choices.map(({ text }: { text: string }) => text)).toEqual([ranked[0].text, ranked[1].text]);
    expect(choices.map(({ index }: { index: number }) => index)).toEqual([0, 1]);
    expect(choices[0].logprobs).toBeNull();
    expect(usage.completion_tokens).toBe(24);
  });

  it('is nothing else than n where both are equal', async () => {
    const withIt = await complete({ n: 2, best_of: 2 });
    expect(withIt.choices).toEqual((await complete({ n: 2 })).choices);
  });
});

describe('logprob_token_ids', () => {
  it('are told in the place of the most probable tokens, with the values that the whole vocabulary has', async () => {
    const server = await startTestServer({ engine: { maxLogprobs: -1 } });
    try {
      const fields = { ...COMPLETION, max_tokens: 3, return_tokens_as_token_ids: true };
      const whole = await bodyOf(await server.post('/v1/completions', { ...fields, logprobs: -1 }));
      const some = await bodyOf(
        await server.post('/v1/completions', { ...fields, logprobs: 2, logprob_token_ids: [7, 40, 9] }),
      );
      expect(some.choices[0].text).toBe(whole.choices[0].text);
      for (const [at, top] of some.choices[0].logprobs.top_logprobs.entries()) {
        const all = whole.choices[0].logprobs.top_logprobs[at];
        const chosen = some.choices[0].logprobs.tokens[at];
        const names = new Set(['token_id:7', 'token_id:40', 'token_id:9', chosen]);
        expect(new Set(Object.keys(top))).toEqual(names);
        for (const name of names) expect(top[name]).toBe(all[name]);
      }
    } finally {
      await server.close();
    }
  });

  it('work in a chat beside others that ask for the most probable ones', async () => {
    const [named, plain] = await Promise.all([
      chat({ logprobs: true, logprob_token_ids: [5] }),
      chat({ logprobs: true, top_logprobs: 3 }),
    ]);
    for (const { top_logprobs } of named.choices[0].logprobs.content) expect(top_logprobs).toHaveLength(1);
    for (const { top_logprobs } of plain.choices[0].logprobs.content) expect(top_logprobs).toHaveLength(3);
  });
});

describe('repetition_detection', () => {
  it('ends an answer that goes in circles, with a reason of its own', async () => {
    const circle = { allowed_token_ids: [33], max_tokens: 50 };
    const detection = { max_pattern_size: 4, min_count: 5 };
    const { choices, usage } = await complete({ ...circle, repetition_detection: detection });
    expect(choices[0]).toMatchObject({ finish_reason: 'repetition', stop_reason: null });
    expect(usage.completion_tokens).toBe(5);
    const late = await complete({ ...circle, repetition_detection: detection, min_tokens: 9 });
    expect(late.usage.completion_tokens).toBe(9);
    const off = await complete({ ...circle, repetition_detection: { max_pattern_size: 0, min_count: 2 } });
    expect(off.choices[0].finish_reason).toBe('length');
  });

  it.each([
    ['a pattern of two', [9, 1, 2, 1, 2, 1, 2], true],
    ['one that is not complete', [2, 1, 2, 1, 2], false],
    ['one that was left', [1, 2, 1, 2, 1, 2, 3], false],
    ['one of a single token, which is too short', [1, 1, 1, 1, 1], false],
    ['one that is too long', [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], false],
  ])('finds %s: %j is %s', (_, tokens, expected) => {
    const rule = { minPatternSize: 2, maxPatternSize: 3, minCount: 3 };
    expect(isRepeating(rule, [...tokens, 7], 0, tokens.length)).toBe(expected);
  });
});

describe('truncation_side', () => {
  it('right keeps the beginning of the prompt, left its end', async () => {
    const fields = { prompt: [5, 6, 7, 8, 9], truncate_prompt_tokens: 2, return_token_ids: true };
    expect((await complete({ ...fields, truncation_side: 'right' })).choices[0].prompt_token_ids).toEqual([
      5, 6,
    ]);
    expect((await complete({ ...fields, truncation_side: 'left' })).choices[0].prompt_token_ids).toEqual([
      8, 9,
    ]);
  });
});

describe('stream_interval', () => {
  it('puts so many tokens into each event but the first and the last, and the same text into all', async () => {
    const fields = { stream: true, return_token_ids: true, n: 2, temperature: 0.9 };
    const chunksOf = async (body: object) => {
      const response = await svc.post('/v1/completions', { ...COMPLETION, ...fields, ...body });
      return eventsOf(await response.text())
        .slice(0, -1)
        .map((data) => JSON.parse(data).choices[0]);
    };
    const textOf = (chunks: { index: number; text: string }[], index: number): string =>
      chunks
        .filter((one) => one.index === index)
        .map(({ text }) => text)
        .join('');
    const single = await chunksOf({});
    const several = await chunksOf({ stream_interval: 5 });
    for (const index of [0, 1]) {
      expect(textOf(several, index)).toBe(textOf(single, index));
      const sizes = several.filter((one) => one.index === index).map((one) => one.token_ids.length);
      expect(sizes).toEqual([1, 5, 5, 1]);
    }
  });
});

describe('service_tier and metadata', () => {
  it('are told in the answer of a chat that names them', async () => {
    const named = await chat({ service_tier: 'auto', metadata: { purpose: 'test' } });
    expect(named).toMatchObject({ service_tier: 'default', metadata: { purpose: 'test' } });
    const plain = await chat({});
    expect(plain.service_tier).toBeNull();
    expect(plain).not.toHaveProperty('metadata');
    const stream = await svc.post('/v1/chat/completions', { ...CHAT, stream: true, service_tier: 'flex' });
    const chunks = eventsOf(await stream.text()).slice(0, -1);
    for (const chunk of chunks) expect(JSON.parse(chunk).service_tier).toBe('default');
  });

  it('and other fields without effect change nothing', async () => {
    const harmless = {
      user: 'me',
      prompt_cache_key: 'key',
      kv_transfer_params: { do_remote_decode: true },
      safety_identifier: 'id',
    };
    expect((await chat(harmless)).choices).toEqual((await chat({})).choices);
  });
});

describe('chat_template of a request', () => {
  const chat_template = '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ mood }}';

  it('takes the place of the template of the model', async () => {
    const fields = { chat_template, chat_template_kwargs: { mood: 'calm' } };
    expect(await promptOf(fields)).toBe('<user>Hellocalm');
    expect(await promptOf({})).not.toContain('<user>Hello');
  });

  it('is refused by a server that does not trust requests, and where it does not compile', async () => {
    const untrusting = await startTestServer();
    try {
      const refused = await untrusting.post('/v1/chat/completions', { ...CHAT, chat_template });
      expect(await bodyOf(refused)).toMatchObject({
        error: { code: 400, param: 'chat_template', message: expect.stringContaining('--trust-request') },
      });
    } finally {
      await untrusting.close();
    }
    const broken = await svc.post('/v1/chat/completions', { ...CHAT, chat_template: '{% if %}' });
    expect(await bodyOf(broken)).toMatchObject({
      error: {
        code: 400,
        param: 'chat_template',
        message: expect.stringMatching(/does not compile: line 1/),
      },
    });
  });

  it('gets documents, and the texts of a message in the form that it writes', async () => {
    const documents = [
      { title: 'A', text: 'one' },
      { title: 'B', text: 'two' },
    ];
    const listing = '{% for d in documents %}{{ d.title }}={{ d.text }};{% endfor %}';
    expect(await promptOf({ documents, chat_template: listing })).toBe('A=one;B=two;');
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ];
    const byPart = '{% for p in messages[0].content %}({{ p.text }}){% endfor %}';
    expect(await promptOf({ messages, chat_template: byPart })).toBe('(a)(b)');
    expect(await promptOf({ chat_template: byPart })).toBe('(Hello)');
    expect(await promptOf({ messages, chat_template })).toBe('<user>a\nb');
    const either = (parts: string) =>
      `{% if messages[0].content is string %}text{{ messages[0].content }}{% else %}parts${parts}{% endif %}`;
    const both = either('{% for p in messages[0].content %}{{ p.text }}{% endfor %}');
    expect(await promptOf({ chat_template: both })).toBe('textHello');
    expect(await promptOf({ messages, chat_template: both })).toBe('partsab');
    // One that would lose all parts but the first gets a text.
    const first = either('{{ messages[0].content[0].text }}');
    expect(await promptOf({ messages, chat_template: first })).toBe('texta\nb');
  });
});

describe('parts that are no text', () => {
  it.each(['image_url', 'input_audio', 'file', 'video_url'])(
    'of type %s are refused: the model reads text',
    async (type) => {
      const content = [
        { type: 'text', text: 'Look' },
        { type, [type]: { url: 'data:,' } },
      ];
      const response = await svc.post('/v1/chat/completions', {
        ...CHAT,
        messages: [{ role: 'user', content }],
      });
      const { error } = await bodyOf(response);
      expect(error).toMatchObject({ code: 400, param: 'messages' });
      expect(error.message).toBe(
        `messages[0].content[1] is of type "${type}", and this model reads only text: send parts of type "text"`,
      );
    },
  );
});

describe('a server that is told so', () => {
  let told: TestServer;
  beforeAll(async () => {
    told = await startTestServer({
      server: {
        responseRole: 'robot',
        streamInterval: 4,
        areTokensIds: true,
        alwaysTellsUsage: true,
        trustsRequestTemplates: true,
        defaultTemplateVariables: { mood: 'calm', tone: 'low' },
      },
    });
  });
  afterAll(() => told.close());

  it('answers in another role', async () => {
    expect((await chat({}, told)).choices[0].message.role).toBe('robot');
  });

  it('sets variables of the template that a request leaves out', async () => {
    const fields = { chat_template: '{{ mood }}/{{ tone }}', chat_template_kwargs: { tone: 'high' } };
    expect(await promptOf(fields, told)).toBe('calm/high');
  });

  it('spells tokens as ids, tells the usage of every stream, and puts several tokens into an event', async () => {
    const { choices } = await chat({ logprobs: true }, told);
    expect(choices[0].logprobs.content[0].token).toMatch(/^token_id:\d+$/);
    const body = { ...COMPLETION, stream: true, return_token_ids: true };
    const events = eventsOf(await (await told.post('/v1/completions', body)).text());
    const chunks = events.slice(0, -1).map((data) => JSON.parse(data));
    expect(chunks.every(({ usage }) => usage.total_tokens > 0)).toBe(true);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } });
    expect(chunks.slice(0, -1).map(({ choices: [one] }) => one.token_ids.length)).toEqual([1, 4, 4, 3]);
  });
});
