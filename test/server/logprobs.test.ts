import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bodyOf, errorOf, eventsOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ engine: { maxLogprobs: -1 } });
});
afterAll(() => svc.close());

const RANDOM = { model: MODEL, temperature: 1, seed: 7, max_tokens: 12, ignore_eos: true };
const MESSAGES = [{ role: 'user' as const, content: 'Hello' }];

interface Lists {
  readonly text_offset: number[];
  readonly token_logprobs: (number | null)[];
  readonly tokens: string[];
  readonly top_logprobs: (Record<string, number> | null)[];
}

async function choiceOf(body: object): Promise<{ text: string; logprobs: Lists; token_ids: number[] }> {
  const response = await svc.post('/v1/completions', { ...RANDOM, prompt: 'Hello', ...body });
  return (await bodyOf(response)).choices[0];
}

/** Every chunk's lists, joined by choice. */
async function streamedLists(body: object): Promise<Map<number, Lists>> {
  const response = await svc.post('/v1/completions', { ...RANDOM, stream: true, ...body });
  const joined = new Map<number, Lists>();
  for (const event of eventsOf(await response.text()).slice(0, -1)) {
    const { index, logprobs } = JSON.parse(event).choices[0];
    const known = joined.get(index) ?? { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
    joined.set(index, {
      text_offset: [...known.text_offset, ...logprobs.text_offset],
      token_logprobs: [...known.token_logprobs, ...logprobs.token_logprobs],
      tokens: [...known.tokens, ...logprobs.tokens],
      top_logprobs: [...known.top_logprobs, ...logprobs.top_logprobs],
    });
  }
  return joined;
}

/** Each token that is text by itself stands where its offset says. */
function expectOffsets(text: string, { text_offset, tokens }: Lists): void {
  const characters = [...text];
  for (const [at, token] of tokens.entries()) {
    if (token.includes('\ufffd') || token === '<s>' || token === '</s>') continue;
    const start = text_offset[at]!;
    expect(characters.slice(start, start + [...token].length).join('')).toBe(token);
  }
}

describe('logprobs of a completion', () => {
  it('come in four lists of one entry a token, read by the official client', async () => {
    const { choices, usage } = await svc.client.completions.create({
      ...RANDOM,
      prompt: 'Hello',
      logprobs: 3,
    });
    const { text, logprobs } = choices[0]!;
    const { text_offset, token_logprobs, tokens, top_logprobs } = logprobs!;
    for (const list of [text_offset, token_logprobs, tokens, top_logprobs]) {
      expect(list).toHaveLength(usage!.completion_tokens);
    }
    for (const [at, top] of top_logprobs!.entries()) {
      const count = Object.keys(top).length;
      expect(count === 3 || count === 4).toBe(true);
      expect(top[tokens![at]!]).toBe(token_logprobs![at]);
      expect(token_logprobs![at]).toBeLessThan(0);
    }
    expectOffsets(text, logprobs as Lists);
  });

  it('are those of a distribution, all of which -1 shows', async () => {
    const { logprobs } = await choiceOf({ logprobs: -1, return_tokens_as_token_ids: true });
    for (const top of logprobs.top_logprobs) {
      const values = Object.values(top!);
      expect(values).toHaveLength(320);
      expect(values.reduce((sum, value) => sum + Math.exp(value), 0)).toBeCloseTo(1, 4);
    }
  });

  it('are of the model itself, whatever penalties and temperature do to the draw', async () => {
    const greedy = await choiceOf({ temperature: 0, logprobs: 1 });
    const best = greedy.logprobs.top_logprobs[0]!;
    const hot = await choiceOf({ temperature: 3, logit_bias: { 5: 100 }, presence_penalty: 2, logprobs: 1 });
    expect(hot.logprobs.top_logprobs[0]).toMatchObject(best);
    expect(greedy.logprobs.token_logprobs[0]).toBe(Object.values(best)[0]);
  });

  it('leave the text alone, and are null where nobody asks', async () => {
    const plain = await choiceOf({});
    expect(plain.logprobs).toBeNull();
    const { text, logprobs } = await choiceOf({ logprobs: 0 });
    expect(text).toBe(plain.text);
    expect(logprobs.top_logprobs.map((top) => Object.keys(top!))).toEqual(
      logprobs.tokens.map((token) => [token]),
    );
  });

  it('are streamed with offsets that go on from chunk to chunk', async () => {
    const body = { prompt: ['Hello', 'the ring'], n: 2, logprobs: 2 };
    const response = await svc.post('/v1/completions', { ...RANDOM, ...body });
    const whole: { logprobs: Lists }[] = (await bodyOf(response)).choices;
    const streamed = await streamedLists(body);
    expect([0, 1, 2, 3].map((index) => streamed.get(index))).toEqual(whole.map(({ logprobs }) => logprobs));
  });

  it('begin with those of an echoed prompt, streaming or not, for every sample', async () => {
    const body = { prompt: 'Hello the ring', n: 2, logprobs: 2, echo: true, return_token_ids: true };
    const { choices, usage } = await bodyOf(await svc.post('/v1/completions', { ...RANDOM, ...body }));
    for (const { text, logprobs } of choices) {
      expect(logprobs.tokens).toHaveLength(usage.prompt_tokens + 12);
      expect(logprobs.token_logprobs[0]).toBeNull();
      expect(logprobs.top_logprobs[0]).toBeNull();
      expect(logprobs.token_logprobs.slice(1)).not.toContain(null);
      expectOffsets(text, logprobs);
    }
    expect(choices[0].logprobs.tokens.slice(0, usage.prompt_tokens)).toEqual(
      choices[1].logprobs.tokens.slice(0, usage.prompt_tokens),
    );
    const streamed = await streamedLists(body);
    expect([streamed.get(0), streamed.get(1)]).toEqual([choices[0].logprobs, choices[1].logprobs]);
  });

  it('are the same for a token that was sampled and for the same token in a prompt', async () => {
    const first = await choiceOf({ prompt: [5, 6, 7], logprobs: 2, return_token_ids: true });
    const again = await choiceOf({
      prompt: [5, 6, 7, ...first.token_ids],
      logprobs: 2,
      echo: true,
      max_tokens: 0,
    });
    expect(again.logprobs.token_logprobs.slice(3)).toEqual(first.logprobs.token_logprobs);
    expect(again.logprobs.top_logprobs.slice(3)).toEqual(first.logprobs.top_logprobs);
  });

  it('are of the prompt alone with echo and max_tokens 0', async () => {
    const { choices, usage } = await svc.client.completions.create({
      model: MODEL,
      prompt: 'Hello the ring',
      max_tokens: 0,
      echo: true,
      logprobs: 1,
    });
    expect(choices[0]).toMatchObject({ text: 'Hello the ring', finish_reason: 'length' });
    expect(choices[0]!.logprobs!.tokens).toHaveLength(usage!.prompt_tokens);
    expect(usage!.completion_tokens).toBe(0);
    const stop = { stop_token_ids: [5], logit_bias: { 5: 100 }, ignore_eos: false };
    const alone = await choiceOf({ max_tokens: 0, echo: true, prompt_logprobs: 1, ...stop });
    expect(alone).toMatchObject({ logprobs: null, finish_reason: 'length', stop_reason: null });
  });

  it('count characters, not bytes, in the offsets of a prompt', async () => {
    const prompt = 'aé😀 b€c';
    const { logprobs } = await choiceOf({ prompt, max_tokens: 0, echo: true, logprobs: 0 });
    expectOffsets(prompt, logprobs);
    expect(logprobs.tokens.at(-1)).toBe('c');
    expect(logprobs.text_offset.at(-1)).toBe([...prompt].length - 1);
  });

  it.each([true, false])('have offsets in a text without special tokens: %s', async (skip_special_tokens) => {
    const plain = await svc.engine.tokenizer!.encode('ab', { addSpecialTokens: false });
    const { text, logprobs } = await choiceOf({
      prompt: [0, ...plain, 0, ...plain],
      echo: true,
      logprobs: 0,
      allowed_token_ids: [0, plain[0]],
      skip_special_tokens,
    });
    const shown = [...logprobs.tokens.entries()].filter(
      ([, token]) => token !== '<s>' || !skip_special_tokens,
    );
    expect(shown.map(([, token]) => token).join('')).toBe(text);
    for (const [at, token] of shown)
      expect(text.slice(logprobs.text_offset[at]).startsWith(token)).toBe(true);
    expect(new Set(shown.map(([at]) => logprobs.text_offset[at])).size).toBe(shown.length);
  });

  it('count characters of an echoed prompt before the answer', async () => {
    const prompt = 'aé😀 b€c';
    const { text, logprobs } = await choiceOf({
      prompt,
      echo: true,
      logprobs: 0,
      allowed_token_ids: [100, 101],
    });
    expectOffsets(text, logprobs);
    const { text_offset } = logprobs;
    expect(text_offset.at(-RANDOM.max_tokens)).toBe([...prompt].length);
  });

  it('are those of the more probable one of two tokens of the same text', async () => {
    const ask = { logprobs: -1, max_tokens: 3 };
    const byText = await choiceOf(ask);
    const byId = await choiceOf({ ...ask, return_tokens_as_token_ids: true });
    for (const [at, top] of byText.logprobs.top_logprobs.entries()) {
      const own = byText.logprobs.tokens[at];
      const best = new Map<string, number>();
      for (const [name, logprob] of Object.entries(byId.logprobs.top_logprobs[at]!)) {
        const { text } = svc.engine.tokenizer!.describe(Number(name.replace('token_id:', '')));
        if (text !== own) best.set(text, Math.max(logprob, best.get(text) ?? Number.NEGATIVE_INFINITY));
      }
      expect({ ...top, [own!]: null }).toEqual({ ...Object.fromEntries(best), [own!]: null });
      expect(best.size).toBeLessThan(319);
    }
  });

  it('spell tokens as ids where that is asked for', async () => {
    const { logprobs, token_ids } = await choiceOf({
      logprobs: 2,
      return_tokens_as_token_ids: true,
      return_token_ids: true,
    });
    expect(logprobs.tokens).toEqual(token_ids.map((id) => `token_id:${id}`));
    for (const top of logprobs.top_logprobs) {
      expect(Object.keys(top!).every((key) => /^token_id:\d+$/.test(key))).toBe(true);
    }
  });

  it('spell tokens as ids where there is no tokenizer', async () => {
    const bare = await startTestServer({ model: { tokenizer: false }, engine: { skipTokenizerInit: true } });
    const body = { prompt: [5, 6], max_tokens: 2, ignore_eos: true, logprobs: 1, prompt_logprobs: 0 };
    const { choices } = await bodyOf(await bare.post('/v1/completions', body));
    expect(choices[0].logprobs.tokens).toEqual(choices[0].token_ids.map((id: number) => `token_id:${id}`));
    expect(choices[0].prompt_logprobs[1]['6']).toMatchObject({ decoded_token: null });
    await bare.close();
  });
});

describe('logprobs of a chat', () => {
  const REQUEST = { ...RANDOM, messages: MESSAGES };

  it('are a list of tokens with bytes that make up the content', async () => {
    const { choices, usage } = await svc.client.chat.completions.create({
      ...REQUEST,
      logprobs: true,
      top_logprobs: 2,
      ...{ skip_special_tokens: false },
    });
    const { message, logprobs } = choices[0]!;
    const content = logprobs!.content!;
    expect(content).toHaveLength(usage!.completion_tokens);
    expect(Buffer.from(content.flatMap(({ bytes }) => bytes!)).toString('utf8')).toBe(message.content);
    for (const { token, logprob, bytes, top_logprobs } of content) {
      expect(top_logprobs).toHaveLength(2);
      expect(top_logprobs[0]!.logprob).toBeGreaterThanOrEqual(top_logprobs[1]!.logprob);
      expect(top_logprobs[0]!.logprob).toBeGreaterThanOrEqual(logprob);
      expect(Buffer.from(bytes!).toString('utf8')).toBe(token);
    }
  });

  it('have empty lists of others where only logprobs is true', async () => {
    const { choices } = await svc.client.chat.completions.create({ ...REQUEST, logprobs: true });
    expect(choices[0]!.logprobs!.content!.every(({ top_logprobs }) => top_logprobs.length === 0)).toBe(true);
    const { choices: plain } = await svc.client.chat.completions.create(REQUEST);
    expect(plain[0]!.logprobs).toBeNull();
    expect(plain[0]!.message.content).toBe(choices[0]!.message.content);
  });

  it('are streamed, and put together by the helper of the official client', async () => {
    const request = { ...REQUEST, n: 2, logprobs: true, top_logprobs: 1 };
    const whole = await svc.client.chat.completions.create(request);
    const streamed = await svc.client.chat.completions.stream(request).finalChatCompletion();
    for (const [at, choice] of whole.choices.entries()) {
      expect(streamed.choices[at]!.logprobs!.content).toEqual(choice.logprobs!.content);
      expect(streamed.choices[at]!.message.content).toBe(choice.message.content);
    }
  });

  it('need logprobs to be true for top_logprobs, whose limit is named', async () => {
    const refusal = async (body: object) =>
      errorOf(await svc.post('/v1/chat/completions', { ...REQUEST, ...body }));
    expect(await refusal({ top_logprobs: 2 })).toMatchObject({ status: 400, param: 'top_logprobs' });
    expect(await refusal({ logprobs: 2 })).toMatchObject({
      status: 400,
      param: 'logprobs',
      type: 'Bad Request',
    });
    const strict = await startTestServer();
    const body = { ...REQUEST, logprobs: true, top_logprobs: 21 };
    expect(await errorOf(await strict.post('/v1/chat/completions', body))).toMatchObject({
      status: 400,
      param: 'top_logprobs',
      message: 'top_logprobs must be at most 20, got 21; --max-logprobs sets the limit',
    });
    await strict.close();
  });
});

describe('prompt_logprobs', () => {
  it('map token ids to value, rank and text, the first place null, at both endpoints', async () => {
    const body = { ...RANDOM, prompt_logprobs: 2, return_token_ids: true };
    const completion = await bodyOf(await svc.post('/v1/completions', { ...body, prompt: 'Hello the ring' }));
    const chat = await bodyOf(await svc.post('/v1/chat/completions', { ...body, messages: MESSAGES }));
    for (const { prompt_logprobs, prompt_token_ids } of [completion.choices[0], chat]) {
      expect(prompt_logprobs).toHaveLength(prompt_token_ids.length);
      expect(prompt_logprobs[0]).toBeNull();
      for (const [at, entry] of prompt_logprobs.entries()) {
        if (entry === null) continue;
        const own = entry[String(prompt_token_ids[at])];
        expect(own.logprob).toBeLessThan(0);
        expect(own.rank).toBeGreaterThanOrEqual(1);
        expect(own.decoded_token).toBe(svc.engine.tokenizer!.describe(prompt_token_ids[at]).text);
        expect(Object.values(entry).some((one) => (one as { rank: number }).rank === 1)).toBe(true);
      }
    }
  });

  it('are null where only echoed tokens have logprobs, and harmless to a stream where they are 0', async () => {
    const { choices } = await bodyOf(
      await svc.post('/v1/completions', { ...RANDOM, prompt: 'Hello', echo: true, logprobs: 1 }),
    );
    expect(choices[0].prompt_logprobs).toBeNull();
    const stream = await svc.post('/v1/completions', {
      ...RANDOM,
      prompt: 'Hello',
      stream: true,
      prompt_logprobs: 0,
    });
    expect(eventsOf(await stream.text()).at(-1)).toBe('[DONE]');
  });
});
