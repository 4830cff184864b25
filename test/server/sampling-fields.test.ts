import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { beamSearch } from '../../src/engine/beam-search.ts';
import { bodyOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

const MESSAGES = [{ role: 'user', content: 'Hello' }];
const RANDOM = {
  model: MODEL,
  temperature: 1,
  seed: 7,
  max_tokens: 24,
  ignore_eos: true,
  return_token_ids: true,
};

interface Choice {
  readonly text: string;
  readonly token_ids: number[];
  readonly prompt_token_ids: number[];
  readonly finish_reason: string;
}

async function complete(body: object): Promise<Choice> {
  const response = await svc.post('/v1/completions', { ...RANDOM, prompt: 'Hello', ...body });
  return (await bodyOf(response)).choices[0];
}

async function chat(body: object): Promise<Choice> {
  const response = await svc.post('/v1/chat/completions', { ...RANDOM, messages: MESSAGES, ...body });
  const { choices, prompt_token_ids } = await bodyOf(response);
  return { ...choices[0], prompt_token_ids };
}

describe.each([
  ['completions', complete],
  ['chat', chat],
])('sampling fields at %s', (_, ask) => {
  it('logit_bias draws to a token and away from it', async () => {
    expect(new Set((await ask({ logit_bias: { 9: 100 } })).token_ids)).toEqual(new Set([9]));
    const { token_ids } = await ask({});
    const banned = token_ids[0]!;
    expect((await ask({ logit_bias: { [banned]: -100 } })).token_ids).not.toContain(banned);
  });

  it('allowed_token_ids keeps everything else out', async () => {
    const allowed_token_ids = [20, 21, 22];
    const { token_ids } = await ask({ allowed_token_ids });
    expect(token_ids.every((id) => allowed_token_ids.includes(id))).toBe(true);
    expect(new Set(token_ids).size).toBeGreaterThan(1);
  });

  it('bad_words keeps a word out', async () => {
    const { token_ids } = await ask({});
    const word = token_ids
      .map((id) => svc.engine.tokenizer!.describe(id).text)
      .find((text) => /^\S+$/.test(text) && !text.includes('\ufffd'))!;
    const again = await ask({ bad_words: [word] });
    expect(again.token_ids).not.toEqual(token_ids);
    const texts = again.token_ids.map((id) => svc.engine.tokenizer!.describe(id).text);
    expect(texts).not.toContain(word);
  });

  it('penalties keep a token from coming again', async () => {
    const allowed = {
      allowed_token_ids: Array.from({ length: 24 }, (_, index) => 40 + index),
      temperature: 0,
    };
    for (const penalty of [{ presence_penalty: 2 }, { frequency_penalty: 2 }, { repetition_penalty: 100 }]) {
      const plain = await ask(allowed);
      const varied = await ask({ ...allowed, ...penalty });
      expect(new Set(varied.token_ids).size).toBeGreaterThan(new Set(plain.token_ids).size);
    }
  });

  it('min_tokens keeps an answer from ending early', async () => {
    const early = { ignore_eos: false, stop_token_ids: [30], logit_bias: { 30: 100 } };
    expect((await ask(early)).token_ids).toHaveLength(1);
    const late = await ask({ ...early, min_tokens: 10 });
    expect(late.token_ids).toHaveLength(11);
    expect(late.finish_reason).toBe('stop');
  });

  it('truncate_prompt_tokens keeps the end of the prompt', async () => {
    const whole = await ask({});
    const cut = await ask({ truncate_prompt_tokens: 1 });
    expect(cut.prompt_token_ids).toEqual(whole.prompt_token_ids.slice(-1));
  });

  it('spaces_between_special_tokens is taken', async () => {
    const { token_ids } = await ask({ spaces_between_special_tokens: false });
    expect(token_ids).toEqual((await ask({})).token_ids);
  });
});

describe('truncate_prompt_tokens', () => {
  it('makes room for the answer with -1, and echoes what is left', async () => {
    const prompt = 'abc '.repeat(900);
    const { prompt_token_ids, text } = await complete({ prompt, truncate_prompt_tokens: -1, echo: true });
    expect(prompt_token_ids).toHaveLength(512 - 24);
    const echo = await svc.engine.tokenizer!.decode(prompt_token_ids, { skipSpecialTokens: true });
    expect(text.startsWith(echo)).toBe(true);
  });
});

describe('detokenize', () => {
  it('is no field of the protocol and changes nothing', async () => {
    expect((await complete({ detokenize: false })).text).toBe((await complete({})).text);
  });
});

describe('use_beam_search', () => {
  const BEAMS = { model: MODEL, prompt: 'Hello', use_beam_search: true, n: 3, max_tokens: 6, temperature: 0 };

  it('gives the n best continuations, the best first, as the offline search finds them', async () => {
    const ids = await svc.engine.tokenizer!.encode('Hello', { addSpecialTokens: true });
    const beams = await beamSearch(svc.engine, ids, {
      beam_width: 3,
      max_tokens: 6,
      ignore_eos: false,
      temperature: 0,
      length_penalty: 1,
      include_stop_str_in_output: true,
    });
    const response = await svc.post('/v1/completions', {
      ...BEAMS,
      return_token_ids: true,
      include_stop_str_in_output: true,
    });
    const { choices, usage } = await bodyOf(response);
    expect(choices.map(({ token_ids }: Choice) => token_ids)).toEqual(
      beams.map(({ tokenIds, promptLength }) => tokenIds.slice(promptLength)),
    );
    expect(choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
    // The prompt is looked up in the cache for every token.
    expect(usage).not.toHaveProperty('prompt_tokens_details');
    expect(usage.completion_tokens).toBe(choices.flatMap(({ token_ids }: Choice) => token_ids).length);
  });

  it('is the greedy answer where one beam is asked for', async () => {
    const { choices } = await svc.client.completions.create({ ...BEAMS, n: 1, ...{ ignore_eos: true } });
    const greedy = await complete({ temperature: 0, max_tokens: 6 });
    expect(choices[0]).toMatchObject({ text: greedy.text, finish_reason: 'length' });
  });

  it('leaves the end token out unless include_stop_str_in_output keeps it', async () => {
    const long = {
      ...BEAMS,
      prompt: [5, 6, 7],
      n: 10,
      max_tokens: 30,
      length_penalty: 0,
      return_token_ids: true,
    };
    const eos = svc.engine.limits.eosTokenIds[0]!;
    const idsOf = async (body: object): Promise<Choice[]> =>
      (await bodyOf(await svc.post('/v1/completions', { ...long, ...body }))).choices;
    const endless = await idsOf({ ignore_eos: true });
    expect(endless.map(({ token_ids }) => token_ids.length)).toEqual(new Array(10).fill(30));
    const kept = await idsOf({ include_stop_str_in_output: true, skip_special_tokens: false });
    const dropped = await idsOf({});
    for (const [at, { text, token_ids, finish_reason }] of kept.entries()) {
      const ends = finish_reason === 'stop';
      expect(text.endsWith('</s>')).toBe(ends);
      expect(token_ids.at(-1) === eos).toBe(ends);
      expect(dropped[at]!.token_ids).toEqual(ends ? token_ids.slice(0, -1) : token_ids);
    }
    expect(kept.some(({ finish_reason }) => finish_reason === 'stop')).toBe(true);
  });

  it('answers chats and echoes prompts', async () => {
    const response = await svc.post('/v1/chat/completions', {
      ...BEAMS,
      prompt: undefined,
      messages: MESSAGES,
    });
    const { choices } = await bodyOf(response);
    expect(choices).toHaveLength(3);
    expect(choices[0].message.role).toBe('assistant');
    const neutral = { stop: [], logit_bias: {}, top_p: 1 };
    const echoed = await svc.client.completions.create({ ...BEAMS, ...neutral, echo: true });
    expect(echoed.choices.every(({ text }) => text.startsWith('Hello'))).toBe(true);
    const only = await svc.client.completions.create({ ...BEAMS, max_tokens: 0, echo: true });
    expect(only.choices.map(({ text }) => text)).toEqual(['Hello', 'Hello', 'Hello']);
  });

  it.each([
    ['left', [6, 7]],
    ['right', [5, 6]],
  ])('reads what is left of a prompt that is cut on the %s', async (truncation_side, kept) => {
    const cut = { truncate_prompt_tokens: 2, truncation_side, return_token_ids: true };
    const { choices } = await bodyOf(
      await svc.post('/v1/completions', { ...BEAMS, prompt: [5, 6, 7], ...cut }),
    );
    const alone = await bodyOf(
      await svc.post('/v1/completions', { ...BEAMS, prompt: kept, return_token_ids: true }),
    );
    expect(choices).toEqual(alone.choices);
  });
});
