import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventsOf, FINGERPRINT, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

const GREEDY = { model: MODEL, temperature: 0, max_tokens: 12 };
const RANDOM = { model: MODEL, temperature: 1, seed: 7, max_tokens: 12, ignore_eos: true };

/** Extensions of the protocol that the client's types do not know. */
interface Extended {
  readonly token_ids: number[] | null;
  readonly prompt_token_ids: number[] | null;
  readonly stop_reason: number | string | null;
}

const extended = (choice: object): Extended => choice as unknown as Extended;

describe('POST /v1/completions', () => {
  it('answers with every field that the protocol names, nulls included', async () => {
    const response = await svc.post('/v1/completions', { ...GREEDY, prompt: 'Hello', ignore_eos: true });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      id: expect.stringMatching(/^cmpl-[0-9a-f]{32}$/),
      object: 'text_completion',
      created: expect.closeTo(Date.now() / 1000, -2),
      model: MODEL,
      choices: [
        {
          index: 0,
          text: expect.any(String),
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
          token_ids: null,
          prompt_logprobs: null,
          prompt_token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: FINGERPRINT,
      usage: {
        prompt_tokens: 2,
        total_tokens: 14,
        completion_tokens: 12,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: {
          reasoning_tokens: 0,
          audio_tokens: 0,
          accepted_prediction_tokens: 0,
          rejected_prediction_tokens: 0,
        },
      },
      kv_transfer_params: null,
    });
  });

  it('streams the text of the whole answer in the same pieces of usage', async () => {
    const whole = await svc.client.completions.create({ ...RANDOM, prompt: 'Hello' });
    const stream = await svc.client.completions.create({
      ...RANDOM,
      prompt: 'Hello',
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.text ?? '').join('')).toBe(whole.choices[0]!.text);
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 2, completion_tokens: 12, total_tokens: 14 },
    });
    const ends = chunks.map(({ choices }) => choices[0]?.finish_reason ?? null);
    expect(ends.filter((end) => end !== null)).toEqual(['length']);
    expect(ends.at(-2)).toBe('length');
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  it('leaves usage out of a stream that did not ask for it', async () => {
    const response = await svc.post('/v1/completions', { ...RANDOM, prompt: 'Hello', stream: true });
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const events = eventsOf(await response.text());
    expect(events.at(-1)).toBe('[DONE]');
    for (const event of events.slice(0, -1)) expect(Object.keys(JSON.parse(event))).not.toContain('usage');
  });

  it('counts usage in every chunk with continuous_usage_stats', async () => {
    const response = await svc.post('/v1/completions', {
      ...RANDOM,
      prompt: 'Hello',
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      return_token_ids: true,
    });
    const chunks = eventsOf(await response.text())
      .slice(0, -1)
      .map((event) => JSON.parse(event));
    expect(chunks.map(({ usage }) => usage.completion_tokens)).toEqual([
      ...Array.from({ length: 12 }, (_, index) => index + 1),
      12,
    ]);
  });

  it('takes 16 tokens where max_tokens is left out or null', async () => {
    for (const limit of [{}, { max_tokens: null }]) {
      const { usage } = await svc.client.completions.create({
        model: MODEL,
        prompt: 'Hello',
        ...limit,
        ...{ ignore_eos: true },
      });
      expect(usage?.completion_tokens).toBe(16);
    }
  });

  it('numbers choices by prompt, then by sample', async () => {
    const prompts = ['Hello', 'the ring', 'on and on'];
    const { choices, usage } = await svc.client.completions.create({ ...RANDOM, prompt: prompts, n: 2 });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const [at, prompt] of prompts.entries()) {
      const alone = await svc.client.completions.create({ ...RANDOM, prompt, n: 2 });
      const texts = choices.slice(2 * at, 2 * at + 2).map(({ text }) => text);
      expect(texts).toEqual(alone.choices.map(({ text }) => text));
      expect(texts[0]).not.toBe(texts[1]);
    }
    expect(usage?.completion_tokens).toBe(72);
  });

  it('streams several prompts and samples under the same numbers', async () => {
    const request = { ...RANDOM, prompt: ['Hello', 'the ring'], n: 2 };
    const whole = await svc.client.completions.create(request);
    const texts = ['', '', '', ''];
    for await (const { choices } of await svc.client.completions.create({ ...request, stream: true })) {
      texts[choices[0]!.index]! += choices[0]!.text;
    }
    expect(texts).toEqual(whole.choices.map(({ text }) => text));
  });

  it('reads token ids as it reads the text that they spell', async () => {
    const response = await svc.client.completions.create({
      ...GREEDY,
      prompt: 'Hello the ring',
      ...{ return_token_ids: true },
    });
    const { prompt_token_ids, token_ids } = extended(response.choices[0]!);
    expect(token_ids).toHaveLength(response.usage!.completion_tokens);
    const fromIds = await svc.client.completions.create({ ...GREEDY, prompt: prompt_token_ids! });
    const fromLists = await svc.client.completions.create({
      ...GREEDY,
      prompt: [prompt_token_ids!, prompt_token_ids!],
    });
    const text = response.choices[0]!.text;
    expect(fromIds.choices.map((choice) => choice.text)).toEqual([text]);
    expect(fromLists.choices.map((choice) => choice.text)).toEqual([text, text]);
  });

  it('streams token ids, those of the prompt in the first chunk of a choice', async () => {
    const request = { ...RANDOM, prompt: 'Hello', return_token_ids: true };
    const whole = await svc.client.completions.create(request);
    const response = await svc.post('/v1/completions', { ...request, stream: true });
    const chunks = eventsOf(await response.text())
      .slice(0, -1)
      .map((event) => JSON.parse(event).choices[0]);
    expect(chunks.flatMap(({ token_ids }) => token_ids)).toEqual(extended(whole.choices[0]!).token_ids);
    expect(chunks.map(({ prompt_token_ids }) => prompt_token_ids)).toEqual([
      extended(whole.choices[0]!).prompt_token_ids,
      ...chunks.slice(1).map(() => undefined),
    ]);
  });

  it('adds no special tokens where add_special_tokens is false', async () => {
    const prompt = 'Hello';
    const [withBos, without] = await Promise.all(
      [true, false].map((add_special_tokens) =>
        svc.client.completions.create({ ...GREEDY, prompt, ...{ add_special_tokens } }),
      ),
    );
    expect(withBos!.usage!.prompt_tokens).toBe(without!.usage!.prompt_tokens + 1);
  });

  it('repeats itself with the same seed and not with another', async () => {
    const texts = await Promise.all(
      [2 ** 62, 2 ** 62, 2].map(async (seed) => {
        const { choices } = await svc.client.completions.create({ ...RANDOM, prompt: 'Hello', seed });
        return choices[0]!.text;
      }),
    );
    expect(texts[0]).toBe(texts[1]);
    expect(texts[0]).not.toBe(texts[2]);
  });

  it('stops before a stop string and names it, streaming or not', async () => {
    const whole = await svc.client.completions.create({ ...RANDOM, prompt: 'Hello', max_tokens: 40 });
    const { text } = whole.choices[0]!;
    const stop = text.slice(10, 13);
    const request = { ...RANDOM, prompt: 'Hello', max_tokens: 40, stop: ['never seen', stop] };
    const cut = await svc.client.completions.create(request);
    expect(cut.choices[0]).toMatchObject({
      text: text.slice(0, text.indexOf(stop)),
      finish_reason: 'stop',
      stop_reason: stop,
    });
    let streamed = '';
    for await (const { choices } of await svc.client.completions.create({ ...request, stream: true })) {
      streamed += choices[0]!.text;
    }
    expect(streamed).toBe(cut.choices[0]!.text);
  });

  it('names the stop token that ended an answer', async () => {
    const request = { ...RANDOM, prompt: 'Hello', return_token_ids: true };
    const whole = await svc.client.completions.create(request);
    const ids = extended(whole.choices[0]!).token_ids!;
    const cut = await svc.client.completions.create({ ...request, ...{ stop_token_ids: [ids[5]] } });
    expect(extended(cut.choices[0]!)).toMatchObject({
      token_ids: ids.slice(0, ids.indexOf(ids[5]!) + 1),
      finish_reason: 'stop',
      stop_reason: ids[5],
    });
  });

  it('puts the prompt before the answer with echo, streaming or not', async () => {
    const request = { ...GREEDY, prompt: ['Hello', 'the ring'] };
    const plain = await svc.client.completions.create(request);
    const echoed = await svc.client.completions.create({ ...request, echo: true });
    const expected = plain.choices.map(({ text }, at) => `${request.prompt[at]}${text}`);
    expect(echoed.choices.map(({ text }) => text)).toEqual(expected);
    const texts = ['', ''];
    for await (const { choices } of await svc.client.completions.create({
      ...request,
      echo: true,
      stream: true,
    })) {
      texts[choices[0]!.index]! += choices[0]!.text;
    }
    expect(texts).toEqual(expected);
  });

  it('gives the prompt alone back with echo and max_tokens 0', async () => {
    const ids = [14, 15, 319];
    const spelled = await svc.engine.tokenizer!.decode(ids, { skipSpecialTokens: true });
    for (const [prompt, text] of [
      ['Hello', 'Hello'],
      [ids, spelled],
    ] as const) {
      const response = await svc.client.completions.create({
        model: MODEL,
        prompt: typeof prompt === 'string' ? prompt : [...prompt],
        max_tokens: 0,
        echo: true,
      });
      expect(response.choices).toMatchObject([{ text, finish_reason: 'length' }]);
      expect(response.usage!.completion_tokens).toBe(0);
    }
  });

  it('names its answers after X-Request-Id, then request_id, and gives the id back', async () => {
    const body = { ...GREEDY, prompt: 'Hello', request_id: 'from-body' };
    const named = await svc.post('/v1/completions', body, { 'x-request-id': 'from-header' });
    expect(named.headers.get('x-request-id')).toBe('from-header');
    expect(await named.json()).toMatchObject({ id: 'cmpl-from-header' });
    const unnamed = await svc.post('/v1/completions', body);
    expect(await unnamed.json()).toMatchObject({ id: 'cmpl-from-body' });
  });

  it('names its answers as a proxy wants them, whatever the id between instances is', async () => {
    const between = `___prefill_addr_10.0.0.1:1___decode_addr_10.0.0.2:2_${'0'.repeat(32)}`;
    const headers = { 'x-request-id': between, 'x-svc-answer-id': 'public' };
    for (const stream of [false, true]) {
      const body = { ...GREEDY, prompt: 'Hello', request_id: 'from-body', stream };
      const text = await (await svc.post('/v1/completions', body, headers)).text();
      const ids = new Set([...text.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id));
      expect([...ids]).toEqual(['cmpl-public']);
    }
    const unfit = { 'x-request-id': 'own', 'x-svc-answer-id': 'not one word' };
    const answer = await svc.post('/v1/completions', { ...GREEDY, prompt: 'Hello' }, unfit);
    expect(await answer.json()).toMatchObject({ id: 'cmpl-own' });
  });

  it('answers two requests of the same id at once', async () => {
    const answers = await Promise.all(
      [1, 2].map(() => svc.post('/v1/completions', { ...GREEDY, prompt: 'Hello', request_id: 'twin' })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  });

  it('takes any of its names and answers with the first', async () => {
    for (const model of [MODEL, 'org/alias', null, undefined]) {
      const response = await svc.post('/v1/completions', { prompt: 'Hello', max_tokens: 1, model });
      expect(await response.json()).toMatchObject({ model: MODEL });
    }
  });

  it('ignores harmless and unknown fields', async () => {
    const response = await svc.post('/v1/completions', {
      ...GREEDY,
      prompt: 'Hello',
      user: 'me',
      metadata: { a: 'b' },
      suffix: null,
      logit_bias: {},
      presence_penalty: 0,
      best_of: 1,
      logprobs: null,
      something_else: [1, 2],
    });
    expect(response.status).toBe(200);
  });
});
