import { describe, expect, it } from 'vitest';
import { makeRequestId, parseRequestId } from '../../src/cluster/request-id.ts';
import { chatCompletions } from '../../src/proxy/endpoints/chat-completions.ts';
import { completions } from '../../src/proxy/endpoints/completions.ts';
import { messages } from '../../src/proxy/endpoints/messages.ts';
import { responses } from '../../src/proxy/endpoints/responses.ts';
import { expectedTokens, textOf } from '../helpers/fake-answers.ts';
import { until } from '../helpers/until.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

const BODY = { model: 'fake', prompt: 'Once upon a time', max_tokens: 5, temperature: 0 };
const TEXT = textOf(expectedTokens(BODY, 0, 5));

describe('a request', () => {
  it('goes to P with one token, then to D as it is, under one id that names both', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    const answer = await proxy.client.completions.create(BODY);
    expect(answer.choices[0]?.text).toBe(TEXT);
    expect(p?.requests).toHaveLength(1);
    expect(p?.requests[0]?.body).toMatchObject({ ...BODY, max_tokens: 1, stream: false });
    expect(d?.requests[0]?.body).toEqual({ ...BODY, n: 1, stream: false });
    const id = String(d?.requests[0]?.headers['x-request-id']);
    expect(p?.requests[0]?.headers['x-request-id']).toBe(id);
    expect(parseRequestId(id)).toMatchObject({ prefill: p?.zmqAddress, decode: d?.zmqAddress });
    expect(answer.id).toMatch(/^cmpl-[0-9a-f]{32}$/);
  });

  it('for a chat reaches P without what only matters for the answer', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    const messages = [{ role: 'user' as const, content: 'Hello' }];
    const chat = {
      model: 'fake',
      messages,
      max_completion_tokens: 3,
      n: 2,
      seed: 7,
      logprobs: true,
      top_logprobs: 2,
      logprob_token_ids: [5],
    };
    const answer = await proxy.client.chat.completions.create(chat);
    expect(answer.choices.map(({ message }) => message.content)).toEqual(
      [0, 1].map((choice) => textOf(expectedTokens(chat, choice, 3))),
    );
    expect(p?.requests[0]?.path).toBe('/v1/chat/completions');
    expect(p?.requests[0]?.body).toMatchObject({
      messages,
      max_tokens: 1,
      max_completion_tokens: 1,
      n: 1,
      logprobs: null,
      top_logprobs: null,
      logprob_token_ids: null,
    });
    expect(d?.requests[0]?.body).toMatchObject(chat);
  });

  it('asks P for one token, whatever its length and number of answers are', () => {
    const asked = { prompt: 'a', max_tokens: 9, min_tokens: 5, n: 2, best_of: 3, echo: true, stream: true };
    const { prefillFields } = completions.readRequest(asked);
    const atP = { max_tokens: 1, min_tokens: 0, n: 1, best_of: null, echo: false, stream: false };
    expect(prefillFields).toEqual(atP);
    expect(responses.readRequest({ input: 'a', max_output_tokens: 9 }).prefillFields).toEqual({
      max_output_tokens: 1,
    });
  });

  it.each([
    [chatCompletions, { response_format: { type: 'json_object' } }, { response_format: null }],
    [completions, { structured_outputs: { regex: 'a+' } }, { structured_outputs: null }],
    [
      responses,
      { text: { verbosity: 'low', format: { type: 'json_object' } } },
      { text: { verbosity: 'low', format: null } },
    ],
    [
      messages,
      { output_config: { effort: 'low', format: { type: 'json_schema', schema: {} } } },
      { output_config: { effort: 'low', format: null } },
    ],
    [responses, { text: { verbosity: 'low' } }, {}],
  ])('has no constraint at P, which would compile it in vain: %#', (endpoint, asked, atP) => {
    const { prefillFields } = endpoint.readRequest(asked);
    const { max_tokens: _, max_output_tokens: __, ...others } = prefillFields ?? {};
    expect(others).toEqual(atP);
  });

  it('streams as D writes it, without the journal', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    const body = { ...BODY, stream: true, stream_options: { include_usage: true } };
    const text = await (await proxy.post('/v1/completions', body)).text();
    expect(p?.requests[0]?.body).toMatchObject({ stream: false, stream_options: null });
    expect(d?.requests[0]?.headers['x-svc-journal']).toBe('1');
    expect(text).not.toContain(': 0');
    const direct = await fetch(`http://${d?.httpAddress}/v1/completions`, {
      method: 'POST',
      headers: { 'x-request-id': String(d?.requests[0]?.headers['x-svc-answer-id']) },
      body: JSON.stringify(body),
    });
    expect(text).toBe(await direct.text());
  });

  it('streams to the official client, chat and completion', async () => {
    const proxy = await TestProxy.start();
    await proxy.join('PD');
    let text = '';
    for await (const { choices } of await proxy.client.completions.create({ ...BODY, stream: true })) {
      text += choices[0]?.text ?? '';
    }
    expect(text).toBe(TEXT);
    const chat = {
      model: 'fake',
      messages: [{ role: 'user' as const, content: 'Hi' }],
      seed: 3,
      max_tokens: 4,
    };
    let said = '';
    for await (const { choices } of await proxy.client.chat.completions.create({ ...chat, stream: true })) {
      said += choices[0]?.delta.content ?? '';
    }
    expect(said).toBe(textOf(expectedTokens(chat, 0, 4)));
  });

  it('that samples gets a seed, one that is greedy or has one keeps its bytes', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    await proxy.client.completions.create({ model: 'fake', prompt: 'a' });
    await proxy.client.completions.create({ model: 'fake', prompt: 'a', seed: -1 });
    await proxy.client.completions.create({ model: 'fake', prompt: 'a', seed: 5 });
    await proxy.client.completions.create({ model: 'fake', prompt: 'a', temperature: 0 });
    const seeds = d?.requests.map(({ body }) => body.seed);
    expect(seeds).toEqual([expect.any(Number), expect.any(Number), 5, undefined]);
    expect(seeds?.[1]).toBeGreaterThanOrEqual(0);
  });

  it('goes to D alone where the prompt is short, where D has to see it all, or where there is no P', async () => {
    const proxy = await TestProxy.start({ config: { prefillThreshold: 10 } });
    const [d] = await proxy.join('D');
    const long = { ...BODY, prompt: 'x'.repeat(100) };
    await proxy.client.completions.create(long);
    const [p] = await proxy.join('P');
    await proxy.client.completions.create(BODY);
    await proxy.client.completions.create({ ...BODY, prompt: [1, 2, 3, 4, 5, 6, 7, 8, 9] });
    await proxy.post('/v1/completions', { ...long, prompt_logprobs: 1 });
    await proxy.post('/v1/completions', { ...long, use_beam_search: true });
    await proxy.post('/v1/completions', { ...long, truncate_prompt_tokens: -1 });
    await proxy.post('/v1/completions', { ...long, max_tokens: 0 });
    await proxy.post('/v1/completions', { ...long, echo: true, logprobs: 1 });
    expect([p?.requests.length, d?.requests.length]).toEqual([0, 8]);
    await proxy.client.completions.create({ ...BODY, prompt: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] });
    await proxy.post('/v1/completions', { ...long, echo: true });
    expect([p?.requests.length, d?.requests.length]).toEqual([2, 10]);
  });

  it.each([
    ['goes to D alone where D knows all but a short rest', {}, [1, 2]],
    ['goes to P again where D has received states of layers', { keeps_states: true }, [2, 2]],
  ])('that goes on from an earlier one %s', async (_name, about, numRequests) => {
    const proxy = await TestProxy.start({ config: { policy: 'prefix_aware', prefillThreshold: 50 } });
    const [p, d] = await proxy.join('PD', { about });
    const prompt = 'It was a dark and stormy night. '.repeat(20);
    await proxy.client.completions.create({ ...BODY, prompt });
    await proxy.client.completions.create({ ...BODY, prompt: `${prompt}Then it rained.` });
    expect([p?.requests.length, d?.requests.length]).toEqual(numRequests);
  });

  it('that goes on from what a D with states has computed alone goes to that D alone', async () => {
    const proxy = await TestProxy.start({ config: { policy: 'prefix_aware', prefillThreshold: 50 } });
    const about = { keeps_states: true };
    const [d] = await proxy.join('D', { about });
    const prompt = 'It was a dark and stormy night. '.repeat(20);
    await proxy.client.completions.create({ ...BODY, prompt });
    const [p] = await proxy.join('P', { about });
    await proxy.client.completions.create({ ...BODY, prompt: `${prompt}Then it rained.` });
    expect([p?.requests.length, d?.requests.length]).toEqual([0, 2]);
  });

  it('counts at its D while P computes, so that those that come meanwhile go to others', async () => {
    const proxy = await TestProxy.start({ config: { policy: 'least_loaded' } });
    const [p, busy, free] = await proxy.join('PDD');
    const send = () => void proxy.post('/v1/completions', BODY).catch(() => null);
    busy?.troubles.push({ at: 'request', does: 'stall' });
    send();
    await until(() => busy?.requests.length === 1);
    for (let count = 2; count <= 6; count++) {
      p?.troubles.push({ at: 'request', does: 'stall' });
      send();
      await until(() => p?.requests.length === count);
    }
    const named = p?.requests.map(({ headers }) => parseRequestId(String(headers['x-request-id']))?.decode);
    for (const d of [busy, free])
      expect(named?.filter((address) => address === d?.zmqAddress)).toHaveLength(3);
  });

  it('counts at its D no more when it is over', async () => {
    const proxy = await TestProxy.start({ config: { policy: 'least_loaded' } });
    const [, first] = await proxy.join('PD');
    for (let times = 0; times < 3; times++) await proxy.client.completions.create(BODY);
    const [second] = await proxy.join('D');
    for (let times = 0; times < 2; times++) await proxy.client.completions.create(BODY);
    expect([first?.requests.length, second?.requests.length]).toEqual([4, 1]);
  });

  it('goes to the D that announces its model, and where none does to any: an adapter may have the name', async () => {
    const proxy = await TestProxy.start();
    const [other] = await proxy.join('D', { about: { model: 'other' } });
    const [fake] = await proxy.join('D');
    for (let times = 0; times < 3; times++) await proxy.client.completions.create(BODY);
    expect([fake?.requests.length, other?.requests.length]).toEqual([3, 0]);
    expect((await proxy.post('/v1/completions', { ...BODY, model: 'an-adapter' })).status).toBe(200);
  });

  it('has its prompt computed by a P of the same model as D, or of one that does not say', async () => {
    const proxy = await TestProxy.start();
    const [other] = await proxy.join('P', { about: { model: 'other' } });
    await proxy.join('D');
    await proxy.client.completions.create(BODY);
    const [plain] = await proxy.join('P', { isPlain: true });
    await proxy.client.completions.create(BODY);
    expect([other?.requests.length, plain?.requests.length]).toEqual([0, 1]);
  });

  it('is served by a P that can do both where there is no D', async () => {
    const proxy = await TestProxy.start();
    const [both] = await proxy.join('P', { about: { role: 'kv_both' } });
    expect((await proxy.client.completions.create(BODY)).choices[0]?.text).toBe(TEXT);
    expect(both?.requests).toHaveLength(1);
  });

  it('goes to instances that speak no more than the existing protocol', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD', { isPlain: true });
    expect((await proxy.client.completions.create(BODY)).choices[0]?.text).toBe(TEXT);
    const streamed = await (await proxy.post('/v1/completions', { ...BODY, stream: true })).text();
    expect(streamed.match(/^data: /gm)).toHaveLength(6);
    expect([p?.requests.length, d?.requests.length]).toEqual([2, 2]);
  });

  it('is answered under the id that the client gave it, in body, chunks and header', async () => {
    const proxy = await TestProxy.start();
    await proxy.join('PD');
    const header = { 'x-request-id': 'my-id' };
    const named = { ...BODY, request_id: 'body-id' };
    for (const [body, headers, id] of [
      [named, header, 'my-id'],
      [named, {}, 'body-id'],
      [{ ...named, stream: true }, header, 'my-id'],
      [{ ...named, stream: true }, {}, 'body-id'],
    ] as const) {
      const answered = await proxy.post('/v1/completions', body, headers);
      expect(answered.headers.get('x-request-id')).toBe(id);
      expect(answered.headers.get('x-fake-instance')).toMatch(/^\d+$/);
      expect(idsOf(await answered.text())).toEqual([`cmpl-${id}`]);
    }
  });

  it('is answered under one random id that names no instance, where the client gave none', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    // An id that names instances would send D to a P of the client's choice.
    const foreign = makeRequestId('127.0.0.1:1', '127.0.0.1:2');
    for (const headers of [{}, { 'x-request-id': foreign }]) {
      for (const stream of [false, true]) {
        const chat = { ...BODY, messages: [{ role: 'user', content: 'Hi' }], stream };
        const answered = await proxy.post('/v1/chat/completions', chat, headers);
        const id = answered.headers.get('x-request-id');
        expect(id).toMatch(/^[0-9a-f]{32}$/);
        expect(idsOf(await answered.text())).toEqual([`chatcmpl-${id}`]);
      }
    }
    const unfit = await proxy.post('/v1/completions', { ...BODY, request_id: 'two\nlines' });
    expect(unfit.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    await p?.close();
    await until(async () =>
      (await proxy.instances()).every(({ type, state }) => type === 'D' || state !== 'ready'),
    );
    await proxy.post('/v1/completions', BODY, { 'x-request-id': foreign });
    expect(d?.requests.at(-1)?.headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/);
  });
});

/** The ids in an answer or its chunks. */
function idsOf(text: string): (string | undefined)[] {
  return [...new Set([...text.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id))];
}

describe('what D says is wrong', () => {
  it.each([400, 401, 404, 422])('%i passes through, status, headers and body', async (status) => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    p?.troubles.push({ at: 'request', does: status });
    d?.troubles.push({ at: 'request', does: status });
    const answered = await proxy.post('/v1/completions', BODY);
    expect([answered.status, answered.headers.get('x-refused')]).toEqual([status, 'yes']);
    expect(await answered.json()).toMatchObject({ error: { message: `fake: ${status}`, code: status } });
    expect([p?.requests.length, d?.requests.length]).toEqual([1, 1]);
  });

  it('ends the transfer at both, which a request that is served does not', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    for (const stream of [false, true]) {
      await (await proxy.post('/v1/completions', { ...BODY, stream })).text();
    }
    d?.troubles.push({ at: 'request', does: 422 });
    expect((await proxy.post('/v1/completions', BODY)).status).toBe(422);
    await until(() => p?.cancelled.length === 1 && d?.cancelled.length === 1);
    const id = d?.requests[2]?.headers['x-request-id'];
    expect([p?.cancelled, d?.cancelled]).toEqual([[id], [id]]);
  });

  it('an object without fields reaches D as one', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    for (const body of ['{}', ' { } ']) await proxy.post('/v1/completions', body);
    expect(d?.requests.map(({ body }) => body.seed)).toEqual([expect.any(Number), expect.any(Number)]);
  });

  it('a body that is no JSON object is refused before anybody is asked', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    for (const body of ['[1]', '"a"', '{"a": ', '7', '']) {
      const answered = await proxy.post('/v1/completions', body);
      expect(answered.status).toBe(400);
      expect(await answered.json()).toMatchObject({ error: { code: 400, message: expect.any(String) } });
    }
    expect(d?.requests).toHaveLength(0);
  });
});

describe('a request with images', () => {
  const url = (numBytes: number): string =>
    `data:image/png;base64,${Buffer.alloc(numBytes, numBytes).toString('base64')}`;
  const chatOf = (...urls: string[]) => ({
    model: 'fake',
    max_tokens: 2,
    messages: [
      { role: 'user', content: urls.map((one) => ({ type: 'image_url', image_url: { url: one } })) },
    ],
  });

  it('reaches the instances as it is, up to 32 MB', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    for (const numBytes of [10, 20 * 1024 * 1024]) {
      const body = chatOf(url(numBytes));
      expect((await proxy.post('/v1/chat/completions', body)).status).toBe(200);
      expect(p?.requests.at(-1)?.body).toMatchObject({ messages: body.messages, max_tokens: 1 });
      expect(d?.requests.at(-1)?.body).toMatchObject(body);
    }
    expect((await proxy.post('/v1/chat/completions', chatOf(url(25 * 1024 * 1024)))).status).toBe(413);
    expect((await proxy.post('/v1/completions', chatOf(url(7 * 1024 * 1024)))).status).toBe(413);
  });

  it('is as long as its images are in a prompt, not as their files, and the same for the same images', () => {
    const { blockHashes, numTokens } = chatCompletions.readRequest(chatOf(url(100_000), url(50_000))).prompt;
    expect(numTokens).toBeLessThan(2000);
    const other = chatCompletions.readRequest(chatOf(url(100_000), url(40_000))).prompt;
    expect(other.numTokens).toBe(numTokens);
    const numShared = blockHashes.findIndex((hash, index) => hash !== other.blockHashes[index]);
    expect(numShared).toBeGreaterThan(10);
    expect(numShared).toBeLessThan(blockHashes.length - 10);
    const block = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(99_999) },
    };
    const ofMessage = messages.readRequest({ messages: [{ role: 'user', content: [block] }] });
    const part = { type: 'input_image', image_url: url(99_999) };
    const ofResponse = responses.readRequest({ input: [{ role: 'user', content: [part] }] });
    for (const { prompt } of [ofMessage, ofResponse]) expect(prompt.numTokens).toBeLessThan(1000);
  });
});
